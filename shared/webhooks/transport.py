"""Transports that deliver changes to subscribers. They send the changes of one video or playlist in order. They send
changes of different videos and playlists concurrently."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shared.feed.change import Change
from shared.threads import map_threads
from shared.webhooks import http_client
from shared.webhooks.attempt import is_accepted
from shared.webhooks.event import event_body, event_headers
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.store import secrets_of

if TYPE_CHECKING:
    from shared.entities import Webhook

CONCURRENT_REQUESTS = 8
"""Maximum number of concurrent requests to one receiver."""


class Attempt(NamedTuple):
    """Attempt to deliver a change, with its result."""

    change: Change
    at: int
    """Time of the attempt, in epoch milliseconds."""
    response: ReceiverResponse

    @property
    def is_accepted(self) -> bool:
        """Whether the subscriber accepted the change."""
        return is_accepted(self.response)


class Transport(Protocol):
    """Interface of transports, which deliver changes to a subscriber."""

    def deliver(
        self, hook: "Webhook", groups: Sequence[Sequence[Change]], in_time: Callable[[], bool]
    ) -> list[Attempt]:
        """Send the changes of each group in order, and different groups concurrently. Return the attempts.

        A change is sent only after the subscriber has accepted the previous change of the group. No request starts
        after a failed request, or after `in_time` has returned false.
        """


class HttpTransport:
    """Transport to the receivers of webhooks. `read_master` returns the key from which the webhooks' secrets are
    derived."""

    def __init__(
        self,
        read_master: Callable[[], str],
        *,
        local: bool = False,
        send: Callable[..., ReceiverResponse] = http_client.send,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._master = cache(read_master)
        self._local = local
        self._send = send
        self._clock = clock

    def deliver(
        self, hook: "Webhook", groups: Sequence[Sequence[Change]], in_time: Callable[[], bool]
    ) -> list[Attempt]:
        """Send changes as signed requests. Raises Unavailable, before any request, if the master key cannot be read."""
        secrets = secrets_of(self._master(), hook, int(self._clock()))
        attempts: list[Attempt] = []
        is_over = threading.Event()

        def deliver_group(group: Sequence[Change]) -> None:
            for change in group:
                if is_over.is_set() or not in_time():
                    return
                now, body = self._clock(), event_body(change)
                headers = event_headers(change["id"], body, secrets, now)
                attempt = Attempt(change, int(now * 1000), self._send(hook["url"], headers, body, local=self._local))
                attempts.append(attempt)
                if not attempt.is_accepted:
                    is_over.set()

        map_threads(deliver_group, groups, CONCURRENT_REQUESTS)
        return attempts
