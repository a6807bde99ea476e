"""One file for each section of a release file."""
