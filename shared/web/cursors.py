"""Cursors: where a list goes on, sealed so that clients can neither read nor make them.

A cursor is a position sealed with XChaCha20-Poly1305 (libsodium,
https://datatracker.ietf.org/doc/html/draft-irtf-cfrg-xchacha): it may be the position of a video that the caller must not
know of. It is bound to its query and expires. docs/decisions/18-sealing-and-size.md says what was weighed.
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
"""What the key is for: nothing else that is derived from the secret is the same."""
BLOCK = 16
"""Bytes. Positions are filled up to a multiple, so that the length of a cursor says little of what is in it."""


class Cursors:
    """Seals and opens cursors with a key that is derived from one secret text."""

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret

    def seal(self, query: str, position: Position, now: int) -> str:
        """The cursor of a position in one query's list; `now` in epoch seconds."""
        # As UTF-8, because an escaped tag of 512 bytes would make the cursor too long.
        text = json.dumps([now, _digest(query), *position], ensure_ascii=False, separators=(",", ":")).encode()
        return _spelled(self._box.encrypt(text + b" " * (-len(text) % BLOCK)))

    def open(self, query: str, cursor: str, now: int, lifetime: float = LIFETIME_SECONDS) -> Position:
        """The position in a cursor; raises InvalidCursor when it is altered, expired, or of another query or release.

        `lifetime` is in seconds; `math.inf` for one that never expires by itself.
        """
        from nacl.exceptions import CryptoError

        try:
            if len(cursor) > LONGEST:
                raise ValueError("longer than any")
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
            if _spelled(sealed) != cursor:  # else many spellings would open the same position
                raise ValueError("not as it would be written")
            issued, digest, at, id_ = json.loads(self._box.decrypt(sealed))
        except (CryptoError, ValueError) as error:  # the latter also of what is too short
            raise InvalidCursor(
                "This release of the service did not issue the cursor; start again from the first page."
            ) from error
        if issued + lifetime < now:
            raise InvalidCursor("The cursor has expired; start again from the first page.")
        if digest != _digest(query):
            raise InvalidCursor("The cursor belongs to another list; repeat the query that it came from.")
        return Position(at, id_)

    @cached_property
    def _box(self) -> "Aead":
        # Imported here, because a request without cursors should not pay for it at a cold start.
        from nacl.secret import Aead

        return Aead(hmac.digest(self._read_secret().encode(), PURPOSE, "sha256"))


def _digest(query: str) -> str:
    return base64.b85encode(hashlib.sha256(query.encode()).digest()[:15]).decode()


def _spelled(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")
