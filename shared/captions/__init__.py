"""Captions and chapters of videos."""
