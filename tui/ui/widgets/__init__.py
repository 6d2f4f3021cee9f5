"""Textual widgets and drawing back ends."""
