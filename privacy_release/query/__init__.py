"""Answer SQL queries on published data, each in a separate process."""
