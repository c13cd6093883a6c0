"""Linear maps that say what they are for, so that an initialisation can treat each kind as its paper does."""

from __future__ import annotations

from torch import nn


class ScoreLinear(nn.Linear):
    """Makes queries or keys."""


class ResidualLinear(nn.Linear):
    """Ends a branch: its output is added to the residual stream."""
