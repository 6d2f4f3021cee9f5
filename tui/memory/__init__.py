"""Where GPU memory goes: weights, KV cache, the rest; without an engine. Standard library only."""
