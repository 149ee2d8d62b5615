"""Saved questions about the archive, and their runs on Athena."""
