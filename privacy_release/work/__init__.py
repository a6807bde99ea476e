"""The run's private work area: its files, the references to them that travel, and where things are."""
