"""The operators, one module per step of a release."""
