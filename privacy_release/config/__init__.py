"""Settings: their origins, the places that they allow, and the reporting of mistakes in them."""
