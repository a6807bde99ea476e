"""Loss and guarantees beside peers, bounds and what others measured, and attacks on releases."""
