"""What counts, cuts and reads tables that memory may not hold: DuckDB on this machine, or Spark."""
