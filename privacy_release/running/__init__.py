"""Run a whole release in one process by executing the steps of its plan in order."""
