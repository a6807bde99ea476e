"""Signed statements about releases, in a chain for each table, and the check that trusts keys alone."""
