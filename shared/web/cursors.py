"""Cursors: encrypted list positions, which clients can neither read nor forge.

A cursor is encrypted because it may contain the id of a video that is hidden from the caller. The cipher is
XChaCha20-Poly1305 (libsodium, https://datatracker.ietf.org/doc/html/draft-irtf-cfrg-xchacha). A cursor expires, and is
valid only for the query that returned it. docs/decisions/18-sealing-and-size.md explains the reasons.
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
"""Seconds until a cursor of a list expires."""
LONGEST = 1024
"""Maximum number of characters of a cursor."""
PURPOSE = b"video-metadata cursors, XChaCha20-Poly1305"
"""Label with which the key of cursors is derived from the secret. Other keys that are derived from the same secret have
other labels, so that the keys differ."""
BLOCK = 16
"""Block size in bytes. Positions are padded to a multiple of it, so that the length of a cursor reveals little of the
cursor's content."""


class Cursors:
    """Encryption and decryption of cursors, with a key that is derived from a secret.

    >>> cursors, query = Cursors(lambda: "the secret"), "GET /v1/videos?tag=sea"
    >>> cursor = cursors.seal(query, Position(at=1_750_000_000, id="v1"), now=1_750_000_100)
    >>> cursors.open(query, cursor, now=1_750_000_200)
    Position(at=1750000000, id='v1')
    """

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret

    def seal(self, query: str, position: Position, now: int) -> str:
        """Return the cursor for a position in a list. `query` identifies the list, and `now` is in epoch seconds."""
        # UTF-8, because escaping a tag of 512 bytes would make the cursor too long.
        text = json.dumps([now, _digest(query), *position], ensure_ascii=False, separators=(",", ":")).encode()
        return _encode(self._box.encrypt(text + b" " * (-len(text) % BLOCK)))

    def open(self, query: str, cursor: str, now: int, lifetime: float = LIFETIME_SECONDS) -> Position:
        """Return the position that a cursor contains.

        Raises InvalidCursor if the cursor was altered, has expired, or belongs to another `query` or to an incompatible
        release. `lifetime` is in seconds. With `math.inf`, cursors do not expire.
        """
        from nacl.exceptions import CryptoError

        try:
            if len(cursor) > LONGEST:
                raise ValueError("too long")
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
            if _encode(sealed) != cursor:  # not canonical base64
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
