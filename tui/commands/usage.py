"""The error that ends a command with exit status 2."""


class UsageError(Exception):
    """Something about the arguments, the config or the terminal that the user must change."""
