"""Screens over the monitor: the dialog before a test, and the test itself."""
