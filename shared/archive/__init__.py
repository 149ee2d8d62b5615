"""Parquet files of the archive, for SQL: compaction of audit entries, snapshots of videos, and erasure of a person."""
