"""The private work area of a run: its files, the references to them, its journal, and its removal."""
