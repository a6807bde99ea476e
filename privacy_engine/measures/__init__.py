"""What a release keeps of its source, and its risks: one function per number, named for it."""
