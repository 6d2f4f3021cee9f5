"""The Prometheus text format and what can be computed from it. Standard library only."""
