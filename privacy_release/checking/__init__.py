"""Check specifications before they run: rules, files, lake, ledger, and a rehearsal of the plan."""
