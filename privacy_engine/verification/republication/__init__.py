"""What attackers who have several releases of one table are left with, and the model that bounds it."""
