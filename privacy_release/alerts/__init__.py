"""Warnings about figures of a release, compared with limits, earlier releases and the remaining budget."""
