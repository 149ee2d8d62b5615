"""SQS as the service uses it: to send a message, and to work through a batch of them.

SQS delivers at least once, and in no order but for the messages of one group of a FIFO queue, so a handler must bear doing the
same twice, and late.
"""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from botocore.exceptions import BotoCoreError, ClientError

from shared.core.errors import PASSING, InternalError, ServiceError, Unavailable
from shared.core.telemetry import correlated, service_logger

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

REQUEST_ATTEMPTS = 3
"""Tries of one request, the first included."""
LONGEST_WAIT = 0.4
"""Seconds to wait at most before another try."""
LARGEST_BATCH = 10
"""Messages in one SendMessageBatch."""
FIFO = ".fifo"
"""What the names of queues end in that keep the messages of a video in order."""

_THROTTLED = frozenset({"RequestThrottled", "ThrottlingException", "AWS.SimpleQueueService.RequestThrottled"})


class BadMessage(Exception):
    """A message that can never be handled; after its last receive SQS moves it to the dead-letter queue."""


class Sender(Protocol):
    """A queue to send to."""

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Send one message; raises Unavailable."""

    def send_all(self, bodies: Sequence[Mapping[str, object]]) -> None:
        """Send several messages; raises Unavailable, after which some may have been sent."""


@dataclass(frozen=True)
class Message:
    """One message of a batch."""

    id: str
    body: dict[str, Any]
    receive_count: int
    """How often it has been delivered, this time included."""

    @property
    def correlation_id(self) -> str | None:
        """Of the request that it was sent for, if it names one."""
        id_ = self.body.get("correlationId")
        return id_ if isinstance(id_, str) else None


def process(event: Mapping[str, Any], handle: Callable[[Message], None]) -> dict[str, Any]:
    """Hand each message of a batch to `handle`, and return which of them SQS should deliver again.

    One that fails does not keep back the others. Each is logged under the id of the request that it was sent for.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
    """
    failed = [record["messageId"] for record in event["Records"] if not _is_done(record, handle)]
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}


def process_together(event: Mapping[str, Any], handle: Callable[[Sequence[Message]], None]) -> dict[str, Any]:
    """Hand all messages of a batch to `handle` in one call, and return which of them SQS should deliver again.

    When it raises Unavailable or WriteContention, all of them come again. On anything else each half is handed over
    by itself, and so on, so that one that fails is found in a few calls and keeps back no other.
    """
    messages: list[Message] = []
    failed = {failure["itemIdentifier"] for failure in process(event, messages.append)["batchItemFailures"]}
    failed.update(_not_done(messages, handle))
    return {
        "batchItemFailures": [
            {"itemIdentifier": record["messageId"]} for record in event["Records"] if record["messageId"] in failed
        ]
    }


def _not_done(messages: Sequence[Message], handle: Callable[[Sequence[Message]], None]) -> list[str]:
    """The ids of the messages that could not be handled; it is logged why."""
    if not messages:
        return []
    try:
        handle(messages)
    except Exception as error:  # also a bug: the messages come again
        failure = error
    else:
        return []
    if len(messages) > 1 and not isinstance(failure, PASSING):
        middle = len(messages) // 2
        return [*_not_done(messages[:middle], handle), *_not_done(messages[middle:], handle)]
    for message in messages:
        with correlated(message.correlation_id):
            _log(message.id, failure)
    return [message.id for message in messages]


def process_groups(event: Mapping[str, Any], handle: Callable[[Sequence[Message]], None]) -> dict[str, Any]:
    """Hand the messages of each group of a FIFO queue to `handle` together, and return which SQS should deliver again.

    When one fails, so do all later ones of its group, as they must not be done before it; other groups are done. When `handle`
    raises anything but Unavailable or WriteContention, the messages are handed over one by one, up to the one that fails.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in event["Records"]:
        groups.setdefault(record["attributes"]["MessageGroupId"], []).append(record)
    failed = [record["messageId"] for records in groups.values() for record in _left(records, handle)]
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}


def _left(
    records: Sequence[Mapping[str, Any]], handle: Callable[[Sequence[Message]], None]
) -> Sequence[Mapping[str, Any]]:
    """Those of a group's messages that are not done: all from the first that failed."""
    messages: list[Message] = []
    readable = next((n for n, record in enumerate(records) if not _is_done(record, messages.append)), len(records))
    if not messages:
        return records
    try:
        handle(messages)
    except PASSING as error:
        _log(messages[0].id, error)
        return records
    except Exception:
        done = next(
            (n for n, record in enumerate(records) if not _is_done(record, lambda one: handle([one]))), readable
        )
        return records[done:]
    return records[readable:]


def _is_done(record: Mapping[str, Any], handle: Callable[[Message], None]) -> bool:
    """Whether a message could be handled; if not, it is logged why."""
    try:
        message = _message(record)
    except Exception as error:
        _log(record["messageId"], error)
        return False
    with correlated(message.correlation_id):
        try:
            handle(message)
        except Exception as error:  # also a bug: the message comes again, and the others are done
            _log(message.id, error)
            return False
    return True


def _log(message_id: str, error: Exception) -> None:
    # Not the body: it may name what logs should not.
    known = {"message_id": message_id, "reason": _reason(error), "cause": repr(error.__cause__)}
    if isinstance(error, (BadMessage, *PASSING)):
        service_logger().warning("message not done", extra=known)
    else:
        service_logger().exception("message not done", exc_info=error, extra=known)


def _message(record: Mapping[str, Any]) -> Message:
    try:
        body = json.loads(record["body"])
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise BadMessage("The message is not a JSON object.")
    return Message(record["messageId"], body, int(record.get("attributes", {}).get("ApproximateReceiveCount", 1)))


def _reason(error: Exception) -> str:
    return error.detail if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}"


def make_client() -> "SQSClient":
    """An SQS client that tries once, as Queue tries again (seconds: 1 to connect, 3 to read)."""
    from botocore.config import Config  # takes most of a second to load, and what only reads messages sends none

    from shared.aws.boto3_client import session

    client = session().create_client(
        "sqs",
        config=Config(
            user_agent="video-metadata",
            connect_timeout=1,
            read_timeout=3,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )
    return cast("SQSClient", client)


class Queue:
    """One queue to send to."""

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
        """SendMessage; raises Unavailable, after which the message may have been sent or not."""
        text = _text(body)

        def send() -> bool:
            self.client.send_message(QueueUrl=self.url, MessageBody=text, DelaySeconds=delay_seconds)
            return True

        self._until_sent(send)

    def send_all(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """SendMessageBatch, as often as it takes; raises Unavailable, after which some may have been sent.

        To a FIFO queue each message goes in the group of its video, and the same one within five minutes only once.
        """
        for start in range(0, len(bodies), LARGEST_BATCH):
            self._send_batch(bodies[start : start + LARGEST_BATCH])

    def _send_batch(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        is_fifo = self.url.endswith(FIFO)
        left = {
            str(place): {"MessageBody": _text(body), **({"MessageGroupId": body["videoId"]} if is_fifo else {})}
            for place, body in enumerate(bodies)
        }

        def send() -> bool:
            entries: Any = [{"Id": id_, **message} for id_, message in left.items()]
            answer = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
            for sent in answer.get("Successful", []):
                left.pop(sent["Id"], None)
            refused = [failed["Code"] for failed in answer.get("Failed", []) if failed["SenderFault"]]
            if refused:
                raise InternalError(f"SQS refused a message with {refused[0]}")
            return not left

        self._until_sent(send)

    def _until_sent(self, send: Callable[[], bool]) -> None:
        """Call `send` until it returns that everything was sent, but not for ever."""
        failure: Exception | None = None
        for attempt in range(1, self._attempts + 1):
            try:
                if send():
                    return
            except ClientError as error:
                if not _is_transient(error):
                    raise InternalError(f"SQS refused a message with {error.response['Error']['Code']}") from error
                failure = error
            except BotoCoreError as error:  # not reached, or no answer in time
                failure = error
            if attempt < self._attempts:
                self._sleep(random.uniform(0, LONGEST_WAIT))
        raise Unavailable("The queue is busy; try again.") from failure


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _is_transient(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return error.response["Error"]["Code"] in _THROTTLED or status >= 500 or status == 429
