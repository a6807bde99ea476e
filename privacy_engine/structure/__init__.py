"""Structure files: the columns of a release with invented records, which are made without reading any."""
