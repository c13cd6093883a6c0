"""Configurations: composed, checked, refused where impossible, then built. The only package that imports Hydra."""
