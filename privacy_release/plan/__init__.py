"""The plan of a release: its steps in order, with their inputs and outputs. Cheap to import in a DAG file."""
