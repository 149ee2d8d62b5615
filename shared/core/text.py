"""What counts as a line of text, and as the name of a user, wherever it comes from."""

import re

BREAKS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Control characters and line breaks, as a part of a pattern's brackets."""
_SPACES = r"\x20\xa0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff"
LINE = rf"^[^{BREAKS}]*[^{BREAKS}{_SPACES}][^{BREAKS}]*$"
"""The pattern of one line: no control characters, and not only spaces."""

LONGEST_USER_ID, LARGEST_USER_ID = 255, 1000
"""Characters, and bytes in UTF-8, of a token's subject, which is the userId of what it makes.

OpenID Connect Core 1.0, section 2, allows 255 ASCII characters. The bytes are what DynamoDB leaves: the sort attributes
of RelationIndex, a number and a userId, share 1,024 (tests/unit/test_keys.py works it out for every key).
"""


def is_user_id(text: str) -> bool:
    """Whether text can be a userId: one line of LONGEST_USER_ID characters and LARGEST_USER_ID bytes at most."""
    return len(text) <= LONGEST_USER_ID and bool(re.fullmatch(LINE, text)) and fits(text, LARGEST_USER_ID)


def fits(text: str, largest: int) -> bool:
    """Whether text fits this many bytes of UTF-8; half a surrogate pair is not text, and never fits."""
    try:
        return len(text.encode()) <= largest
    except UnicodeEncodeError:
        return False
