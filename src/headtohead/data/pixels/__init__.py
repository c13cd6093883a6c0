"""What can be done to many images at once, on any device: tensors [B, C, H, W] whose values run from 0 to 255."""
