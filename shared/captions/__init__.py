"""Captions and chapters of videos: parsing, extraction from source files, and storage."""
