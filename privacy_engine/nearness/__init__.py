"""How near a release is to the least loss: bounds from below, and a search of the neighbourhood of a partition."""
