"""NVIDIA devices through NVML: every field is optional, and one bad device never costs the others."""
