"""What waits in the triggerer, and occupies no worker."""
