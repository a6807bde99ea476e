"""Ways to make a release, each of which gives one `ProducedRelease`, and the staging of it."""
