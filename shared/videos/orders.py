"""Orders of lists: the sort values by which UserOrderIndex and CategoryOrderIndex sort the videos of an owner or a
category.

The indexes sort values as text. Numbers are therefore written so that their order as text is their numerical order: 10
follows 9. The value by title is in the video's own item. The values by rating and by views are in sort entries
(shared/videos/sort_entries.py), because they change often.
"""

import re
import unicodedata

from shared.schema import BY_RATING, BY_VIEWS

LONGEST_TITLE = 256
"""Maximum bytes of a sort value by title, in UTF-8. Videos whose sort values agree in these bytes are sorted by id."""
STORED_ORDERS = (BY_RATING, BY_VIEWS)
"""Orders for which a video has separate sort entries."""

_DIGITS = re.compile(r"\d+")


def title_value(title: str) -> str:
    """Return the sort value of a title: without case, accents and repeated white space.

    Each number is preceded by the number of its digits, in two digits, so that `Part 10` follows `Part 9`.

    >>> title_value("  Été, Part 10")
    'ete, part 0210'
    """
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", title).casefold())
    base = decomposed
    if not base.isascii():
        base = "".join(character for character in decomposed if not unicodedata.combining(character))
    text = _DIGITS.sub(_sortable_number, " ".join(base.split()))
    # An index key must not be empty, but a title may consist of accents only.
    return text.encode()[:LONGEST_TITLE].decode(errors="ignore") or " "


def _sortable_number(digits: re.Match[str]) -> str:
    number = str(int(digits[0])) if len(digits[0]) < LONGEST_TITLE else digits[0]
    return f"{min(len(number), 99):02}{number}"


def rating_value(total: int, votes: int) -> str | None:
    """Return the sort value of an average rating, rounded to two decimals as in documents. `None` without votes.

    `total` is the sum of the ratings.
    """
    return f"{round(round(total / votes, 2) * 100):04}" if votes else None


def views_value(views: int) -> str:
    """Return the sort value of a number of views: the number in 12 digits."""
    return f"{views:012}"
