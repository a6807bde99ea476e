"""Settings: where they come from, which places they allow, and how mistakes in them are reported."""
