"""The manifest of a release as a value with typed fields, whatever version wrote it."""
