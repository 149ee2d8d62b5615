"""Reads films: what they are, pictures of them, and smaller renditions. It knows nothing of AWS."""
