"""What attackers with several releases of one table can still not decide, and the model that limits it."""
