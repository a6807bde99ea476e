"""Queries of databases as sources."""
