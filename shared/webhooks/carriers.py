"""Who brings changes to a follower: to the receiver of a webhook, one by one, and those of several videos side by side."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, Protocol

from shared.core.attributes import Item
from shared.feed.change import Change
from shared.threads import map_threads
from shared.webhooks import sending
from shared.webhooks.attempt import is_taken
from shared.webhooks.event import body_of, headers_of
from shared.webhooks.sending import Answer
from shared.webhooks.store import secrets_of

AT_A_TIME = 8
"""Requests to one receiver side by side."""


class Try(NamedTuple):
    """A change that was sent at a time (epoch milliseconds), and what came of it."""

    change: Change
    at: int
    answer: Answer

    @property
    def is_taken(self) -> bool:
        """Whether the follower has taken it."""
        return is_taken(self.answer)


class Carrier(Protocol):
    """Brings changes to a follower."""

    def carry(self, hook: Item, groups: Sequence[Sequence[Change]], in_time: Callable[[], bool]) -> list[Try]:
        """Send the changes of each group in their order, one only after that before it was taken; groups side by side.

        After the first that is not taken, or when it is not `in_time` any more, none is begun. Returns those that were tried.
        """


class Receivers:
    """The receivers of webhooks. `read_master` returns what the secrets of webhooks are derived from."""

    def __init__(
        self,
        read_master: Callable[[], str],
        *,
        local: bool = False,
        send: Callable[..., Answer] = sending.send,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._master = cache(read_master)
        self._local = local
        self._send = send
        self._clock = clock

    def carry(self, hook: Item, groups: Sequence[Sequence[Change]], in_time: Callable[[], bool]) -> list[Try]:
        """As Carrier says. Raises Unavailable when the secret cannot be read; nothing was sent then."""
        secrets = secrets_of(self._master(), hook, int(self._clock()))
        tries: list[Try] = []
        is_over = threading.Event()

        def bring(group: Sequence[Change]) -> None:
            for change in group:
                if is_over.is_set() or not in_time():
                    return
                now, body = self._clock(), body_of(change)
                headers = headers_of(change["id"], body, secrets, now)
                tried = Try(change, int(now * 1000), self._send(hook["url"], headers, body, local=self._local))
                tries.append(tried)
                if not tried.is_taken:
                    is_over.set()

        map_threads(bring, groups, AT_A_TIME)
        return tries
