"""Definitions of a line of text and of a userId, for all sources of input."""

import re

BREAKS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Control characters and line breaks, for use inside a character class of a pattern."""
_SPACES = r"\x20\xa0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff"
LINE = rf"^[^{BREAKS}]*[^{BREAKS}{_SPACES}][^{BREAKS}]*$"
"""Pattern of one line: no control characters, and not only spaces."""

LONGEST_USER_ID, LARGEST_USER_ID = 255, 1000
"""Maximum characters, and bytes in UTF-8, of a userId, which is the subject of a token.

OpenID Connect Core 1.0, section 2, allows 255 ASCII characters. The byte limit follows from DynamoDB's 1,024 bytes for the sort
attributes of RelationIndex, a number and a userId. tests/unit/test_keys.py checks it for every key.
"""


def is_user_id(text: str) -> bool:
    """Return whether text is a valid userId: one line of at most LONGEST_USER_ID characters and LARGEST_USER_ID bytes."""
    return len(text) <= LONGEST_USER_ID and bool(re.fullmatch(LINE, text)) and fits(text, LARGEST_USER_ID)


def fits(text: str, largest: int) -> bool:
    """Return whether text has at most this many bytes in UTF-8; false for text with a lone surrogate."""
    try:
        return len(text.encode()) <= largest
    except UnicodeEncodeError:
        return False
