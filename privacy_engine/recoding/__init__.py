"""Forming groups of records and recoding their values: what anonymizers share."""
