"""SQS queues: sending of messages, and numbers of messages. shared/aws/messages.py has the processors of received messages."""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from botocore.exceptions import BotoCoreError, ClientError

from shared.core.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_sqs import SQSClient

REQUEST_ATTEMPTS = 3
"""Maximum number of attempts of one request, including the first."""
LONGEST_WAIT = 0.4
"""Maximum seconds to wait before a retry."""
LARGEST_BATCH = 10
"""Maximum number of messages in one SendMessageBatch (SQS's limit)."""
FIFO = ".fifo"
"""Suffix of the names of FIFO queues. A FIFO queue delivers the messages of one video in order."""

_THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "AWS.SimpleQueueService.RequestThrottled"})


_DEPTHS: tuple[
    Literal["ApproximateNumberOfMessages"],
    Literal["ApproximateNumberOfMessagesNotVisible"],
    Literal["ApproximateNumberOfMessagesDelayed"],
] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class BadMessage(Exception):
    """The message is invalid, so a retry cannot succeed. After the last receive, SQS moves the message to the
    dead-letter queue."""


class QueueDepth(NamedTuple):
    """Approximate numbers of messages in a queue. SQS counts them without locks, so they may be slightly wrong."""

    waiting: int
    """Messages that a consumer can receive now."""
    in_flight: int
    """Messages that a consumer has received, but not deleted yet."""
    delayed: int
    """Messages that become available later."""


class Sender(Protocol):
    """Interface of a queue for sending messages."""

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Send one message. Raises Unavailable if sending failed; the message may have been sent nevertheless."""

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Send several messages. Raises Unavailable if sending failed; some messages may have been sent
        nevertheless."""


def make_client(create: "Callable[[str, Config], Any] | None" = None) -> "SQSClient":
    """Return an SQS client. The client makes one attempt, because `Queue` retries. Time-outs: 1 s to connect, 3 s to
    read."""
    from botocore.config import (
        Config,  # slow to import, and functions that only receive messages do not need it
    )

    from shared.aws.boto3_client import botocore_client

    client = (create or botocore_client)(
        "sqs",
        Config(
            user_agent="video-metadata",
            connect_timeout=1,
            read_timeout=3,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
    return cast("SQSClient", client)


class Queue:
    """SQS queue for sending messages. Retries failed requests, after a random wait of at most LONGEST_WAIT seconds."""

    def __init__(
        self,
        url: str,
        client: "SQSClient",
        *,
        attempts: int = REQUEST_ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self.client = client
        self._attempts = attempts
        self._sleep = sleep

    def send(self, body: Mapping[str, Any], delay_seconds: int = 0) -> None:
        """Send a message (SendMessage), which consumers receive after `delay_seconds`.

        Raises Unavailable if all attempts failed; the message may have been sent nevertheless.
        """
        text = _text(body)

        def send() -> bool:
            self.client.send_message(QueueUrl=self.url, MessageBody=text, DelaySeconds=delay_seconds)
            return True

        self._send_with_retries(send)

    def send_all(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Send messages (SendMessageBatch, 10 per request).

        Raises Unavailable if all attempts failed; some messages may have been sent nevertheless.

        In a FIFO queue, the group of a message is its `videoId`. SQS drops a message if an equal one was sent in the
        last five minutes.
        """
        for start in range(0, len(bodies), LARGEST_BATCH):
            self._send_batch(bodies[start : start + LARGEST_BATCH])

    def depth(self) -> QueueDepth:
        """Return the approximate numbers of messages (GetQueueAttributes). Makes one attempt, and raises Unavailable if
        it fails."""
        try:
            reply = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=list(_DEPTHS))
        except (ClientError, BotoCoreError) as error:
            raise Unavailable("The queue is unavailable.") from error
        return QueueDepth(*(int(reply["Attributes"][name]) for name in _DEPTHS))

    def _send_batch(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        is_fifo = self.url.endswith(FIFO)
        pending = {
            str(number): {"MessageBody": _text(body), **({"MessageGroupId": body["videoId"]} if is_fifo else {})}
            for number, body in enumerate(bodies)
        }

        def send() -> bool:
            entries: Any = [{"Id": id_, **message} for id_, message in pending.items()]
            response = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
            for sent in response.get("Successful", []):
                pending.pop(sent["Id"], None)
            refused = [failed["Code"] for failed in response.get("Failed", []) if failed["SenderFault"]]
            if refused:
                raise InternalError(f"SQS refused a message with {refused[0]}")
            return not pending

        self._send_with_retries(send)

    def _send_with_retries(self, send: Callable[[], bool]) -> None:
        """Call `send` until it returns true. Raises Unavailable after the last attempt."""
        failure: Exception | None = None
        for attempt in range(1, self._attempts + 1):
            try:
                if send():
                    return
            except ClientError as error:
                if not _is_transient(error):
                    raise InternalError(f"SQS refused a message with {error.response['Error']['Code']}") from error
                failure = error
            except BotoCoreError as error:  # unreachable, or timed out
                failure = error
            if attempt < self._attempts:
                self._sleep(random.uniform(0, LONGEST_WAIT))
        raise Unavailable("The queue is busy.") from failure


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _is_transient(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return error.response["Error"]["Code"] in _THROTTLED or status >= 500 or status == 429
