"""Releases of a standing population: tables measured over their changes, and a release only on change."""
