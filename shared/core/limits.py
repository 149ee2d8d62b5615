"""Limits of what clients send that more than one package needs."""

LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z, the last time that RFC 3339 can write."""
LARGEST_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""

LAST_YEAR = 9999

LARGEST_FILM = 500 * 1000**3
"""Bytes of one upload: a day of the best camera; S3 itself stops at more."""
MOST_PARTS = 1000

LONGEST_FOLDED_TAG = 512
"""Bytes of a tag in UTF-8, folded."""

BEST_RATING = 10

LARGEST_BATCH = 100
"""Videos or operations of one batch."""
LAST_SEASON, LAST_EPISODE = 9_999, 999_999
"""Some seasons are named by their year, and some series have had an episode a day for decades."""
LONGEST_POINTER = 300
"""Characters of a JSON Pointer: each place in a video has a shorter one."""
