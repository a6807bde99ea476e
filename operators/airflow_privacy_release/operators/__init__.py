"""One file a step of a DAG."""
