"""The error of a mistake that is the user's: every refusal of this package is one of its kind, so that the command line
prints it as it is."""


class UsageError(ValueError):
    """What was asked for cannot be done; the message says what was given, why it cannot be, what to give instead."""
