"""Private records about the people of a release: marks of their values, registers, and the last release."""
