"""Releases of people who were released before, made so that all of them together tell nobody apart."""
