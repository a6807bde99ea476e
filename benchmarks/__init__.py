"""Methods measured beside their papers and beside peers: `python -m benchmarks` writes one report.

The parts are in `papers`, `peers` and `scale`; `__main__.PARTS` declares each. This folder has what they
share: `tables` and the synthesizers' `dp_tables`, `dp_methods` and `dp_scores` (what is measured), `timing`
and `processes` (time and memory), `intervals` and `verdicts` (judgements), `report` (the stored page).
"""
