"""Differential privacy: losses, mechanisms, spent losses, and the rules of a budget."""
