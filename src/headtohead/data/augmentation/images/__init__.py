"""Changes of images, all of a batch at once, on the device."""
