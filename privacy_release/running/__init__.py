"""A release in one process: its plan, followed step by step."""
