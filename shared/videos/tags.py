"""When two tags are the same: a video shows its own spelling, and is found by any."""

import unicodedata


def folded(tag: str) -> str:
    """The tag as it is compared, found and counted by.

    Case does not matter, nor compatible forms of the same characters, nor how many spaces there are: Unicode's
    caseless matching of identifiers (The Unicode Standard, section 3.13, D146), with white space collapsed.
    """
    form = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", tag).casefold())
    return " ".join(form.split())
