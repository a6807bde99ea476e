"""Methods measured beside their papers and beside peers: `python -m benchmarks` writes one report."""
