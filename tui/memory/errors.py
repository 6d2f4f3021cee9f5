"""The error of everything that reads a model directory."""


class ModelError(Exception):
    """A model that cannot be read or understood: one line that names file and key, safe to show."""
