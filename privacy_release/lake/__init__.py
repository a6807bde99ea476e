"""Release tables in a Delta lake: publish, retract, read, and the proofs beside them."""
