"""The claims, tables and figures of the five papers."""
