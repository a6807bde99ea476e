"""Reports for readers: self-contained HTML pages without any individual record."""
