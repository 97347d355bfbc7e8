"""What ends a replica before its program begins."""


class CannotStart(Exception):
    """The program cannot be started at all; trying again would not help. Says why."""
