"""What the parameters of a sweep are called.

W&B looks for a run's values by the names of the parameters, in the run's configuration: `schedule` is all that the
schedule is there, and the name of the choice stands in `choices`. So a group may be written as choices.schedule.
"""

from __future__ import annotations

_CHOICES = "choices."


def field_of(parameter: str) -> str:
    """The field or group that an override names."""
    return parameter.removeprefix(_CHOICES)
