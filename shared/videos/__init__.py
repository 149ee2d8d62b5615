"""A video: its life, who may see it, its document, its store, lists, tags, counters and batches."""
