"""The vocabulary of the whole program: frozen readings, statuses, verdicts. Standard library only."""
