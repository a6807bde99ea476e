"""Questions in SQL to what is published, each answered in a process of its own."""
