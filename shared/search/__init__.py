"""Full-text search over all videos: the index, query parsing, ranking and highlights."""
