"""Drain and restart tests: the only part that acts on a process, and only when asked to."""
