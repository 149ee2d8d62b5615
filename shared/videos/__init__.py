"""Videos: lifecycle, access rules, documents, store, lists, tags, view counters and batches."""
