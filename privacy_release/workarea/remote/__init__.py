"""A work area without a shared disk: encrypted files at an address, and a local folder for each task."""
