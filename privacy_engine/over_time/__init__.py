"""Releases of people who were released before, made so that nobody can be told apart by all of them together."""
