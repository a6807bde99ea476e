"""Count, cut and read tables that may not fit into memory: DuckDB on this machine, or Spark."""
