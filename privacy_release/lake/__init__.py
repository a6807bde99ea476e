"""Release tables in a Delta lake: publishing, retracting and reading releases, with their proofs."""
