"""Infer hierarchies from a column, check them against it, and draw them. Only for the curator."""
