"""Choose a method and its parameters before any release, from a grid that is measured and plotted."""
