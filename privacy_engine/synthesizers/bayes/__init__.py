"""Bayesian networks that are learned privately: PrivBayes and DPSM-Bayes."""
