"""One-shot checks with an exit status: of a running engine, and before one is started."""
