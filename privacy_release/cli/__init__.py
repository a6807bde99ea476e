"""The command `privacy-release`."""
