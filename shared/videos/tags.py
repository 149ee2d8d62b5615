"""Equality of tags.

A document shows a tag in the spelling that the owner wrote. Lists and searches accept any equivalent spelling.
"""

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=1024)  # the videos of a list share most of their tags
def normalise_tag(tag: str) -> str:
    """Return the case-folded tag, which is the key for comparing, finding and counting tags.

    Ignores case, compatibility forms of characters, and repeated white space. This is Unicode's caseless matching of
    identifiers (The Unicode Standard, section 3.13, D146), with white space collapsed.
    """
    form = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", tag).casefold())
    return " ".join(form.split())
