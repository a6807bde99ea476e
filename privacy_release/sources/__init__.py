"""Sources of records: addresses, reading, checking and copying."""
