"""A table about people as algorithms use it: schema, hierarchies, domains, codes, and classes of records."""
