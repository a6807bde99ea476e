"""The plan of a release: its steps in order, what each takes and gives; light enough for every DAG file."""
