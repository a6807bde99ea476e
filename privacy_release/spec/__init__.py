"""A release as a YAML file: the model of it, its files, what is wrong with them, and a first draft."""
