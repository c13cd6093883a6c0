"""The error of a mistake that is the user's: every refusal of this package is one of its kind, so that the command line
prints it as it is."""


class UsageError(ValueError):
    """A request cannot be fulfilled; the message names what was given, why it cannot be done and what to give
    instead."""
