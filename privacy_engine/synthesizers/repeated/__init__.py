"""Releases of a standing population that measure the tables of the first one again."""
