"""Cursors: where a list goes on, sealed so that clients can neither read nor make them.

A cursor is a Fernet token (AES-128-CBC and HMAC-SHA256, https://github.com/fernet/spec): what it holds may be
the position of a video that the caller must not know of. It is bound to its query and expires.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS, has_time
from shared.core.errors import InvalidCursor, Unavailable
from shared.core.position import Position

if TYPE_CHECKING:
    from botocore.config import _RetryDict
    from cryptography.fernet import Fernet

LIFETIME_SECONDS = 24 * 3600
LONGEST = 1024
ATTEMPTS = 3
ONE_TRY: "_RetryDict" = {"mode": "standard", "total_max_attempts": 1}
PAUSE = 0.1
"""Seconds between two attempts to read the secret."""


def secret_reader(arn: str, sleep: Callable[[float], None] = time.sleep) -> Callable[[], str]:
    """Reads the cursor secret from AWS Secrets Manager, when first needed; raises Unavailable.

    Tries three times, but begins no attempt that could not end within the request's deadline.
    """

    def read() -> str:
        import boto3  # takes most of a second to start, and most requests need no cursor
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        config = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=ONE_TRY)
        client = boto3.client("secretsmanager", config=config)
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            pause = PAUSE if attempt else 0
            if not has_time(pause):
                break
            sleep(pause)
            try:
                return client.get_secret_value(SecretId=arn)["SecretString"]
            except (BotoCoreError, ClientError) as error:
                failure = error
        raise Unavailable("The cursor key cannot be read; try again.") from failure

    return read


class Cursors:
    """Seals and opens cursors with a key that is derived from one secret text."""

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret

    def seal(self, query: str, position: Position, now: int) -> str:
        """The cursor of a position in one query's list; `now` in epoch seconds."""
        # As UTF-8, because an escaped tag of 512 bytes would make the cursor too long.
        payload = json.dumps([_digest(query), *position], ensure_ascii=False, separators=(",", ":"))
        return self._fernet.encrypt_at_time(payload.encode(), now).decode().rstrip("=")

    def open(self, query: str, cursor: str, now: int) -> Position:
        """The position in a cursor; raises InvalidCursor when it is altered, expired, or of another query."""
        # Imported here, because a request without cursors should not pay for it at a cold start.
        from cryptography.fernet import InvalidToken

        # Fernet overlooks what base64 does not need; then many spellings would open the same position.
        if len(cursor) > LONGEST or not _is_canonical(cursor):
            raise InvalidCursor("This service did not issue the cursor.")
        token = cursor + "=" * (-len(cursor) % 4)
        try:
            payload = self._fernet.decrypt(token)
            issued = self._fernet.extract_timestamp(token)
        except InvalidToken as error:
            raise InvalidCursor("This service did not issue the cursor.") from error
        if issued + LIFETIME_SECONDS < now:
            raise InvalidCursor("The cursor has expired; start again from the first page.")
        digest, at, id_ = json.loads(payload)
        if digest != _digest(query):
            raise InvalidCursor("The cursor belongs to another list; repeat the query that it came from.")
        return Position(at, id_)

    @cached_property
    def _fernet(self) -> "Fernet":
        from cryptography.fernet import Fernet

        key = hashlib.sha256(self._read_secret().encode()).digest()
        return Fernet(base64.urlsafe_b64encode(key))


def _digest(query: str) -> str:
    return base64.b85encode(hashlib.sha256(query.encode()).digest()[:15]).decode()


def _is_canonical(cursor: str) -> bool:
    """Whether it is base64url as it would be written: no foreign characters, no bits left over at the end."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
    except ValueError:
        return False
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") == cursor
