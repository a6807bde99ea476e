"""Outlier detectors for tables of numbers and categories."""
