"""How a platform probes and stops a container: pure code, without a clock, a socket or a process."""
