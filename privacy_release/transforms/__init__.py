"""A step of the user's own between ingest and release: a table in, a table out, checked again."""
