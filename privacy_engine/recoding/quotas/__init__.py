"""Classes built under quotas of the sensitive values, for models that bound how they are distributed."""
