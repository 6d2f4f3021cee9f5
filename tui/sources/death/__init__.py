"""Why an engine has gone: its supervisor, the kernel's log and its own log, asked afterwards."""
