"""Attacks that test what a release reveals about the people in it."""
