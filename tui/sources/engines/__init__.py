"""Inference engines: which one answers, and its metrics in canonical quantities."""
