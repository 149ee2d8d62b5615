"""Shows the messages of a dead-letter queue, and moves them back to the main queue.

SQS's StartMessageMoveTask would move messages without showing them, and the embedded AWS does not support it. The tool
sends each message before it deletes the message. A failure in between can duplicate a message, but cannot lose it.
Handlers tolerate duplicates.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Grid

from shared.processing.arrivals import KEY
from shared.schema import TABLE_NAME
from tools import ToolError
from tools.progress import Bars

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef, SendMessageBatchRequestEntryTypeDef

STACKS = ("Media", "Jobs")
"""Name suffixes of the stacks that contain queues."""

BATCH = 10
"""Maximum number of messages per SQS batch request."""

SHOWN = 20
SHORT = 60
"""Maximum number of characters of an unknown message body that are shown."""

HIDDEN_SECONDS = 120
"""Visibility timeout of received messages, in seconds. If the command is killed, messages reappear after this time."""

WAIT_SECONDS = 1
"""Wait time of a receive request, in seconds. A value above 0 enables long polling, which queries all SQS servers."""

IDLE_ROUNDS = 3
"""Number of consecutive receive requests that return no message to move. After that many requests, the tool treats the
queue as empty."""


@dataclass(frozen=True)
class Pair:
    """A queue: its name, its URL, and the URL of its dead-letter queue."""

    name: str
    queue: str
    dead_letters: str


@dataclass(frozen=True)
class Letter:
    """Printed properties of a message in a dead-letter queue: type, video, attempt, age and number of receives."""

    what: str
    video: str
    attempt: str
    age: int
    """Seconds since the message was first sent."""
    receives: int


@dataclass
class RedriveOutcome:
    """Numbers of messages, by outcome of a move."""

    moved: int = 0
    refused: int = 0
    """Number of messages that the queue rejected. They stay in the dead-letter queue."""
    twice: int = 0
    """Number of moved messages that could not be deleted, and are therefore in both queues."""


def find_pair(client: Any, env: str, name: str) -> Pair:
    """Find the queue `name` and its dead-letter queue in the outputs of the stacks.

    If the stacks have no queue with this name, raises ToolError with the names of all queues.
    """
    outputs: dict[str, str] = {}
    for part in STACKS:
        outputs |= _outputs(client, f"{TABLE_NAME}-{env}-{part}")
    urls = {
        output.removesuffix("DeadLettersUrl").lower(): (
            outputs.get(output.replace("DeadLettersUrl", "QueueUrl"), ""),
            url,
        )
        for output, url in outputs.items()
        if output.endswith("DeadLettersUrl")
    }
    if name not in urls:
        raise ToolError(f"The queue {name!r} does not exist. Use {', '.join(sorted(urls)) or 'another deployment'}.")
    return Pair(name, *urls[name])


def _outputs(client: Any, stack: str) -> dict[str, str]:
    try:
        (described,) = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            raise ToolError(f"The stack {stack} is not deployed here. Check --env, credentials and region.") from error
        raise
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}


class DeadLetters:
    """Client of one dead-letter queue. It lists messages and moves them back."""

    def __init__(self, pair: Pair, client: "SQSClient", now: Callable[[], float] = time.time) -> None:
        self._pair = pair
        self._client = client
        self._now = now

    def count(self) -> int:
        """Return the approximate number of messages, from the queue's attributes."""
        answer = self._client.get_queue_attributes(
            QueueUrl=self._pair.dead_letters, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def peek(self, limit: int = SHOWN) -> list[Letter]:
        """Return at most `limit` messages, oldest first. The messages stay in the queue, and other consumers can
        receive them immediately."""
        seen: dict[str, MessageTypeDef] = {}
        try:
            while len(seen) < limit:
                received = self._receive(min(BATCH, limit - len(seen)))
                if not received:
                    break
                seen |= {message["MessageId"]: message for message in received}
        finally:
            self._show_again(list(seen.values()))
        return sorted((self._letter(message) for message in seen.values()), key=lambda letter: -letter.age)

    def move(self, limit: int | None = None, progress: Callable[[int], None] = lambda _: None) -> RedriveOutcome:
        """Move at most `limit` of the messages that are present at the start. `progress` receives the number moved so
        far.

        Messages that arrive later stay. Therefore a message that fails again immediately is not moved twice.
        """
        started = self._now() * 1000
        outcome, idle = RedriveOutcome(), 0
        kept: dict[str, MessageTypeDef] = {}
        try:
            while idle < IDLE_ROUNDS and (limit is None or outcome.moved + outcome.refused < limit):
                room = BATCH if limit is None else min(BATCH, limit - outcome.moved - outcome.refused)
                received = {message["MessageId"]: message for message in self._receive(room)}
                ours = [
                    message
                    for id_, message in received.items()
                    if id_ not in kept and float(message["Attributes"]["SentTimestamp"]) <= started
                ]
                kept |= received
                idle = 0 if ours else idle + 1
                sent = self._send(ours)
                deleted = self._delete(sent)
                for message in deleted:
                    del kept[message["MessageId"]]
                outcome.moved += len(sent)
                outcome.refused += len(ours) - len(sent)
                outcome.twice += len(sent) - len(deleted)
                progress(outcome.moved)
        finally:
            self._show_again(list(kept.values()))
        return outcome

    def _receive(self, most: int) -> "list[MessageTypeDef]":
        answer = self._client.receive_message(
            QueueUrl=self._pair.dead_letters,
            MaxNumberOfMessages=most,
            VisibilityTimeout=HIDDEN_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"],
        )
        return answer.get("Messages", [])

    def _send(self, messages: "Sequence[MessageTypeDef]") -> "list[MessageTypeDef]":
        """Send messages to the main queue, and return the messages that the queue accepted."""
        if not messages:
            return []
        try:
            answer = self._client.send_message_batch(
                QueueUrl=self._pair.queue, Entries=[_entry(n, message) for n, message in enumerate(messages)]
            )
        except ClientError as error:
            # Each message is within the size limit, because it was sent before. The batch may exceed the limit.
            if "BatchRequestTooLong" not in error.response["Error"]["Code"] or len(messages) == 1:
                raise
            middle = len(messages) // 2
            return self._send(messages[:middle]) + self._send(messages[middle:])
        return [messages[int(done["Id"])] for done in answer.get("Successful", [])]

    def _delete(self, messages: "Sequence[MessageTypeDef]") -> "list[MessageTypeDef]":
        """Delete messages from the dead-letter queue, and return the messages that SQS deleted."""
        if not messages:
            return []
        answer = self._client.delete_message_batch(
            QueueUrl=self._pair.dead_letters,
            Entries=[{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)],
        )
        return [messages[int(done["Id"])] for done in answer.get("Successful", [])]

    def _show_again(self, messages: "Sequence[MessageTypeDef]") -> None:
        for some in _batches(messages):
            self._client.change_message_visibility_batch(
                QueueUrl=self._pair.dead_letters,
                Entries=[
                    {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
                    for n, message in enumerate(some)
                ],
            )

    def _letter(self, message: "MessageTypeDef") -> Letter:
        attributes = message["Attributes"]
        what, video, attempt = described(message["Body"])
        age = max(0, int(self._now() - float(attributes["SentTimestamp"]) / 1000))
        return Letter(what, video, attempt, age, int(attributes["ApproximateReceiveCount"]))


def redrive(
    pair: Pair,
    client: "SQSClient",
    *,
    show_only: bool = False,
    asking: bool = True,
    limit: int | None = None,
    ask: Callable[[str], str] = input,
) -> int:
    """Print the messages of a dead-letter queue, and move at most `limit` of them. Returns the exit status.

    With `show_only`, nothing is moved. With `asking`, the operator must confirm the move.
    """
    letters = DeadLetters(pair, client)
    console = Console(highlight=False, soft_wrap=True)
    count = letters.count()
    if not count:
        print(f"The dead-letter queue of {pair.name} is empty.")
        return 0
    shown = letters.peek()
    console.print(_grid(shown))
    if len(shown) < count:
        print(f"Showing {len(shown)} of about {count}.")
    if show_only:
        return 0
    if asking and _answer(ask, f"Move {_amount(count, limit)} back to {pair.name}? Type yes: ") != "yes":
        print("Nothing was moved.")
        return 0
    with Bars().bar(f"To {pair.name}", min(count, limit or count), counted=True) as advance:
        outcome = letters.move(limit, advance)
    print(f"{outcome.moved} moved, {letters.count()} left.")
    if outcome.refused:
        print(f"{outcome.refused} were rejected by the queue. Run the same command again.", file=sys.stderr)
    if outcome.twice:
        print(
            f"{outcome.twice} of the moved messages are still in the dead-letter queue, and the next run would move them again.",
            file=sys.stderr,
        )
    return 1 if outcome.refused or outcome.twice else 0


def _answer(ask: Callable[[str], str], question: str) -> str:
    try:
        return ask(question).strip().lower()
    except EOFError as error:
        raise ToolError(
            "There is no terminal for the confirmation, so nothing was moved. Use --yes to skip it."
        ) from error


def _amount(count: int, limit: int | None) -> str:
    return f"about {count}" if limit is None or limit >= count else f"{limit} of about {count}"


def _grid(letters: Sequence[Letter]) -> Grid:
    # Ids must not be truncated on narrow terminals.
    grid = Grid("message", Column("video", min_width=36), "attempt", "age", "received")
    for letter in letters:
        age = str(timedelta(seconds=letter.age))
        grid.add_row(escape(letter.what), escape(letter.video), letter.attempt, age, str(letter.receives))
    return grid


def described(body: str) -> tuple[str, str, str]:
    """Return the type, the video's id and the attempt of a message, for display.

    For a message of unknown type, return the beginning of the body and two empty strings.
    """
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    match content:
        case {"schema": str(schema)}:
            what = " ".join([schema.removeprefix("video-metadata/"), str(content.get("kind", ""))]).rstrip()
            video = content.get("videoId") or content.get("playlistId") or ""
            return what, str(video), str(content.get("attempt", ""))
        case {"Records": [{"eventName": str(name), "s3": {"object": {"key": str(key)}}}, *_]}:
            place = KEY.fullmatch(key)
            return name, place[1] if place else _shortened(key), ""
        case _:
            return _shortened(body), "", ""


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def _entry(number: int, message: "MessageTypeDef") -> "SendMessageBatchRequestEntryTypeDef":
    entry: SendMessageBatchRequestEntryTypeDef = {"Id": str(number), "MessageBody": message["Body"]}
    attributes: Any = message.get("MessageAttributes")
    if attributes:
        entry["MessageAttributes"] = attributes
    group = message["Attributes"].get("MessageGroupId")
    if group:  # required by FIFO queues
        entry["MessageGroupId"] = group
    return entry


def _batches(messages: "Sequence[MessageTypeDef]") -> "Iterator[Sequence[MessageTypeDef]]":
    for start in range(0, len(messages), BATCH):
        yield messages[start : start + BATCH]
