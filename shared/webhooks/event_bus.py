"""EventBridge event bus that receives all changes, for subscribers on AWS."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from shared.feed.change import Change
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.transport import Attempt

if TYPE_CHECKING:
    from shared.entities import Webhook

MAX_EVENTS = 10
"""Maximum number of events per PutEvents request."""
SOURCE = "video-metadata"


class EventBus:
    """Transport to an EventBridge event bus. `name` is the name or ARN of the bus, and `client` is boto3's client of
    EventBridge."""

    def __init__(self, name: str, client: Any, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self._client = client
        self._clock = clock

    def deliver(self, _: "Webhook", groups: Sequence[Sequence[Change]], in_time: Callable[[], bool]) -> list[Attempt]:
        """Send the changes of each group in order, until a change of any group fails or `in_time` returns false. Return
        the attempts.

        A request contains up to MAX_EVENTS changes, each of a different group. EventBridge may reject some changes of a
        request and accept others, so one request could otherwise break the order of a group. One call sends each change
        at most once.
        """
        attempts: list[Attempt] = []
        pending = deque(deque(group) for group in groups)
        while pending and in_time():
            batch = [pending.popleft() for _ in range(min(MAX_EVENTS, len(pending)))]
            results = self._send([group.popleft() for group in batch])
            attempts += results
            if not all(attempt.is_accepted for attempt in results):
                break
            pending.extend(group for group in batch if group)
        return attempts

    def _send(self, changes: Sequence[Change]) -> list[Attempt]:
        begun = self._clock()
        try:
            entries = self._client.put_events(Entries=[self._entry(change) for change in changes])["Entries"]
            errors = [entry.get("ErrorCode") for entry in entries]
        except ClientError as refusal:
            errors = [refusal.response["Error"]["Code"]] * len(changes)
        except BotoCoreError:  # the bus was not reached, or did not respond in time
            errors = ["nothing"] * len(changes)
        ms = round((self._clock() - begun) * 1000)
        return [
            Attempt(change, int(begun * 1000), _response(code, ms))
            for change, code in zip(changes, errors, strict=True)
        ]

    def _entry(self, change: Change) -> dict[str, Any]:
        return {
            "Time": change["at"] / 1000,
            "Source": SOURCE,
            "DetailType": change["type"],
            "Detail": orjson.dumps(change).decode(),
            "EventBusName": self.name,
        }


def _response(code: str | None, ms: int) -> ReceiverResponse:
    """Return the result of sending one event. `code` is EventBridge's error code, or `None` if the bus accepted the
    event."""
    error = f"EventBridge returned {code}." if code else None
    return ReceiverResponse(None if code else 200, ms, b"", error, is_forbidden=False, retry_after=None)
