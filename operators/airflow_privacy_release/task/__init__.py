"""What tasks have in common: their run, errors, rendered arguments, links, metrics, notices and lineage."""
