"""Random names for resources that tests create in a shared service."""

import secrets

LETTERS = "bcdfghjklmnpqrstvwxz"
"""Consonants, because names without vowels contain no words."""
DIGITS = "0123456789"
PAIRS = 12


def random_name() -> str:
    """Return a random name of alternating letters and digits. It is unique, and contains no word of a user
    interface."""
    return "".join(secrets.choice(LETTERS) + secrets.choice(DIGITS) for _ in range(PAIRS))
