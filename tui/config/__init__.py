"""Settings from TOML: read, checked, and printed as a commented template."""
