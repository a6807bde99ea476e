"""Warnings about the figures of a release: against limits, earlier releases and what is left of a budget."""
