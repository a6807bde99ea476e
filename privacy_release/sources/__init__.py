"""Where records come from: addresses, reading, copying, and sample tables."""
