"""The ways to make a release, each of which gives a `ProducedRelease`, and the staging of the result."""
