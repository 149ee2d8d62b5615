"""Limits of client input that several packages share."""

LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z in epoch seconds, the last time that RFC 3339 can represent."""
LARGEST_INTEGER = 2**53 - 1
"""Largest integer that all JSON parsers represent exactly (RFC 8259, section 6)."""

LAST_YEAR = 9999
"""Maximum year in a field of a video."""

MAX_SOURCE_BYTES = 500 * 1000**3
"""Maximum bytes of an upload: about a day of professional camera footage, and below S3's limit for an object."""
MAX_PARTS = 1000
"""Maximum number of parts of an upload."""

LONGEST_FOLDED_TAG = 512
"""Maximum bytes of a case-folded tag in UTF-8."""

BEST_RATING = 10
"""Maximum value of a rating; the minimum is 1."""

LARGEST_BATCH = 100
"""Maximum number of videos or operations in a batch."""
LAST_SEASON, LAST_EPISODE = 9_999, 999_999
"""Maximum season number, and maximum episode number.

Some series number their seasons by year. Some series have had daily episodes for decades."""
LONGEST_POINTER = 300
"""Maximum number of characters of a JSON Pointer. The pointers of all fields of a video are shorter."""
