"""Time and memory, up to tables of any size."""
