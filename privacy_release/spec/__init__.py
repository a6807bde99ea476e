"""A release as a YAML file: its model, the files that it names, the rules that they must meet, and drafts."""
