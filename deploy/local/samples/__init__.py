"""Sample tables as Parquet files, the sources of the example releases."""
