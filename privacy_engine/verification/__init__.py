"""Privacy models, policies and the verification of released records; nothing here knows an algorithm."""
