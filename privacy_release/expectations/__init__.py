"""Great Expectations as a gate that counts its expectations and shows no cell value."""
