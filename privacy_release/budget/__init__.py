"""What a release spends: booked before records are read, paid once, and answers that repeat."""
