"""Triggers: they wait in the triggerer and occupy no worker."""
