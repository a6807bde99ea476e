"""Loss, guarantees and time of the releases of a year."""
