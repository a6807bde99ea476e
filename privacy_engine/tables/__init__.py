"""A table about people as algorithms see it: schema, hierarchies, domains, codes, and classes of records."""
