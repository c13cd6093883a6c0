"""Combinations that are refused before anything is built, each with the reason and the way out."""
