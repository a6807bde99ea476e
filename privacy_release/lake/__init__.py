"""Release tables in a Delta lake: publish, retract, read, ask, and the proofs beside them."""
