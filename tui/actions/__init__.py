"""Drain and restart tests: the only part of the program that acts on a process, and only when it was asked to."""
