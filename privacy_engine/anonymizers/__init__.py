"""Release methods that recode the quasi-identifiers of classes of records."""
