"""Migrations of the budget ledger, run by `BudgetLedger.migrate`."""
