"""Search: the index of all videos, what is asked of it, and what it finds."""
