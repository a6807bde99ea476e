"""A work area for workers that share no disk: encrypted files at an address, and a scratch folder a task."""
