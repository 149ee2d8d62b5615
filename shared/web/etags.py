"""ETags and conditional requests: RFC 9110, sections 8.8.3 (ETag) and 13.1 (If-Match, If-None-Match)."""

import hashlib
import re


def etag(version: int, body: str) -> str:
    """Return the strong ETag of a response. It consists of the version, and a hash of the representation `body`."""
    return f'"{version}.{hashlib.sha256(body.encode()).hexdigest()[:16]}"'


def if_match(header: str | None, version: int) -> bool:
    """Return whether If-Match allows a change of this version (RFC 9110, section 13.1.1). True if `header` is `None`.

    Compares only the version in an ETag, because different callers receive different representations of one version.
    """
    return header is None or any(tag == "*" or _version_in(tag) == version for tag in _listed(header))


def allows(match: str | None, none_match: str | None, tag: str | None) -> bool:
    """Return whether If-Match (`match`) and If-None-Match (`none_match`) allow a write of the resource with this ETag.

    `tag` is `None` if the resource does not exist. In this case If-Match never allows the write, and If-None-Match
    always does. Unlike `if_match`, this function also compares the hash, if the header's ETag has one.
    """
    if tag is None:
        return match is None
    if none_match is not None and any(_names(sent.removeprefix("W/"), tag) for sent in _listed(none_match)):
        return False
    return match is None or any(_names(sent, tag) for sent in _listed(match))


def is_not_modified(header: str | None, tag: str) -> bool:
    """Return whether If-None-Match contains this ETag or `*`. If so, the response must be a 304."""
    # If-None-Match compares weakly (RFC 9110, section 13.1.2): W/"x" matches "x".
    return header is not None and any(sent.removeprefix("W/") in (tag, "*") for sent in _listed(header))


def _listed(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]


def _names(sent: str, tag: str) -> bool:
    """Return whether `sent`, a tag from a header, matches the ETag `tag`.

    Three tags match: `*`, the whole ETag, and the ETag's version alone in quotes.
    """
    return sent in ("*", tag, f'{tag.partition(".")[0]}"')


def _version_in(tag: str) -> int | None:
    # If-Match compares strongly, so a weak tag never matches. Any representation of the version matches.
    match = re.fullmatch(r'"([0-9]{1,15})(\.[0-9a-f]*)?"', tag)
    return int(match[1]) if match else None
