"""Release methods that answer for each individual at random."""
