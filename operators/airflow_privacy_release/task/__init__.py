"""What a task is: its run, its errors, rendered arguments, links, metrics, notices and lineage."""
