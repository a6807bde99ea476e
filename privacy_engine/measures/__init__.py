"""What a release keeps of its source and what it risks: one function a number, named for it."""
