"""Random names for what tests create in a service that all of them share."""

import secrets

LETTERS = "bcdfghjklmnpqrstvwxz"
"""Consonants: without vowels there are no words."""
DIGITS = "0123456789"
PAIRS = 12


def random_name() -> str:
    """A name that no other test uses and that contains no word of any interface: letters and digits take turns."""
    return "".join(secrets.choice(LETTERS) + secrets.choice(DIGITS) for _ in range(PAIRS))
