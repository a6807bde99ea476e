"""The privacy budget ledger: its entries, its database, and its location."""
