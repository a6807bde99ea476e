"""Outlier detectors: records that stand apart in a table of numbers and categories."""
