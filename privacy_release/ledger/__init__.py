"""The privacy budget ledger: its book, its database, and where it is."""
