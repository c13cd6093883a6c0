"""Composition by Hydra: overrides, choices and defaults become one resolved dictionary."""
