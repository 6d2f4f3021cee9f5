"""What must hold before an engine is started: ``infertop preflight``."""
