"""Attacks on a staged release before a reviewer sees it, and the people held out as their control group."""
