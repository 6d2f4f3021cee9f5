"""Lint of probe and shutdown settings in manifests, against what was measured. Reads no file itself."""
