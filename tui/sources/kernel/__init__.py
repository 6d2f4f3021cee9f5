"""Readers of the kernel's own files under /proc and /sys: figures and rates, no judgement."""
