"""Views: which count, what was counted when, and the lists of what is viewed most."""
