"""Choosing a method and its parameters by looking, before any release: a grid, measured and drawn."""
