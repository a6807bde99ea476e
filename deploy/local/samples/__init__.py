"""Sample tables as Parquet files: what the example releases read, as yours read what is delivered to you."""
