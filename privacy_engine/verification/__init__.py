"""Privacy models, policies and the verification of released records, independent of any algorithm."""
