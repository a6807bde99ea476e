"""Learning from randomized releases: reconstruction, naive Bayes, decision trees."""
