"""Release methods that draw records from a differentially private model."""
