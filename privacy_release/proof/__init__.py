"""Signed statements about releases, in a chain for each table, and a check that trusts only keys."""
