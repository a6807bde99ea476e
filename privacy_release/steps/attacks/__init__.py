"""Attacks on a staged release before anybody is asked to approve it, and the people held out for them."""
