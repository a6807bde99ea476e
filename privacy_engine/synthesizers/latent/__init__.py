"""LatentClass, the recommended synthesizer: the tables it measures, the model it fits, and the method."""
