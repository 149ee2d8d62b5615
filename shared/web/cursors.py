"""Cursors: encrypted positions of lists, which clients can neither read nor forge.

A cursor is encrypted because it may contain the id of a video that is hidden from the caller. The cipher is XChaCha20-Poly1305
(libsodium, https://datatracker.ietf.org/doc/html/draft-irtf-cfrg-xchacha). A cursor is bound to its query and expires.
docs/decisions/18-sealing-and-size.md has the reasons.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from shared.core.errors import InvalidCursor
from shared.core.position import Position

if TYPE_CHECKING:
    from nacl.secret import Aead

LIFETIME_SECONDS = 24 * 3600
LONGEST = 1024
PURPOSE = b"video-metadata cursors, XChaCha20-Poly1305"
"""Context of the key derivation, which separates this key from other keys derived from the same secret."""
BLOCK = 16
"""Bytes to a multiple of which positions are padded, so that the length of a cursor reveals little of its content."""


class Cursors:
    """Encrypts and decrypts cursors with a key derived from one secret.

    >>> cursors, query = Cursors(lambda: "the secret"), "GET /v1/videos?tag=sea"
    >>> cursor = cursors.seal(query, Position(at=1_750_000_000, id="v1"), now=1_750_000_100)
    >>> cursors.open(query, cursor, now=1_750_000_200)
    Position(at=1750000000, id='v1')
    """

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret

    def seal(self, query: str, position: Position, now: int) -> str:
        """Return the cursor for a position in the list of a query; `now` is in epoch seconds."""
        # UTF-8, because escaping a tag of 512 bytes would make the cursor too long.
        text = json.dumps([now, _digest(query), *position], ensure_ascii=False, separators=(",", ":")).encode()
        return _encode(self._box.encrypt(text + b" " * (-len(text) % BLOCK)))

    def open(self, query: str, cursor: str, now: int, lifetime: float = LIFETIME_SECONDS) -> Position:
        """Return the position in a cursor; raises InvalidCursor if it is altered, expired, or of another query or release.

        `lifetime` is in seconds; with `math.inf` cursors do not expire.
        """
        from nacl.exceptions import CryptoError

        try:
            if len(cursor) > LONGEST:
                raise ValueError("too long")
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
            if _encode(sealed) != cursor:  # base64 that is not canonical
                raise ValueError("not canonical")
            issued, digest, at, id_ = json.loads(self._box.decrypt(sealed))
        except (CryptoError, ValueError) as error:  # ValueError also for a cursor that is too short
            raise InvalidCursor(
                "The cursor is invalid, or of another release. Start again from the first page."
            ) from error
        if issued + lifetime < now:
            raise InvalidCursor("The cursor has expired. Start again from the first page.")
        if digest != _digest(query):
            raise InvalidCursor("The cursor belongs to another query. Repeat the query that returned it.")
        return Position(at, id_)

    @cached_property
    def _box(self) -> "Aead":
        # Imported here, so that requests without cursors do not import it in a cold start.
        from nacl.secret import Aead

        return Aead(hmac.digest(self._read_secret().encode(), PURPOSE, "sha256"))


def _digest(query: str) -> str:
    return base64.b85encode(hashlib.sha256(query.encode()).digest()[:15]).decode()


def _encode(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")
