"""ETags: which version of something a client has, and whether a request depends on it.

RFC 9110, sections 8.8.3 (ETag) and 13.1 (If-Match, If-None-Match).
"""

import hashlib
import re


def etag(version: int, body: str) -> str:
    """The strong validator of an answer: the version, and a hash of the representation."""
    return f'"{version}.{hashlib.sha256(body.encode()).hexdigest()[:16]}"'


def if_match(header: str | None, version: int) -> bool:
    """Whether an If-Match, if there is one, allows a change of this version (RFC 9110, section 13.1.1)."""
    return header is None or any(tag == "*" or _version_in(tag) == version for tag in _listed(header))


def allows(wanted: str | None, unwanted: str | None, tag: str | None) -> bool:
    """Whether If-Match (`wanted`) and If-None-Match (`unwanted`) allow a write of what has this ETag.

    Without a tag there is nothing yet, which If-Match never allows and If-None-Match always does. Unlike `if_match`,
    this compares the whole ETag.
    """
    if tag is None:
        return wanted is None
    if unwanted is not None and any(_names(sent.removeprefix("W/"), tag) for sent in _listed(unwanted)):
        return False
    return wanted is None or any(_names(sent, tag) for sent in _listed(wanted))


def has_now(header: str | None, tag: str) -> bool:
    """Whether If-None-Match names this ETag: the client has the answer already."""
    # If-None-Match compares weakly (RFC 9110, section 13.1.2): W/"x" matches "x".
    return header is not None and any(sent.removeprefix("W/") in (tag, "*") for sent in _listed(header))


def _listed(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]


def _names(sent: str, tag: str) -> bool:
    """Whether a tag that a client sent stands for what has this one: `*`, all of it, or its version alone."""
    return sent in ("*", tag, f'{tag.partition(".")[0]}"')


def _version_in(tag: str) -> int | None:
    # If-Match compares strongly: a weak tag never matches. Any representation of a version will do.
    match = re.fullmatch(r'"([0-9]{1,15})(\.[0-9a-f]*)?"', tag)
    return int(match[1]) if match else None
