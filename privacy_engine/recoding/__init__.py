"""Form groups of records and recode their values: what anonymizers share."""
