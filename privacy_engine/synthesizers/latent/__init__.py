"""LatentClass, the recommended synthesizer: what it measures, the model that it fits, and the method."""
