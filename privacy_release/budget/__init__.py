"""Pay for releases: losses are booked before records are read, and answers are paid for once and repeated."""
