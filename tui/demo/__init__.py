"""A simulated engine: real processes, sockets and signals around a queueing model of the scheduler."""
