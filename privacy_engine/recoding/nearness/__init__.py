"""How near a release is to the least loss: bounds from below, and a search around a partition."""
