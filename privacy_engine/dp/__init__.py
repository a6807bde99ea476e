"""Differential privacy: losses, mechanisms, what a release spent, and the rules of a budget."""
