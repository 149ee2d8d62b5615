"""Moves the messages in a dead-letter queue back to their queue, after showing them.

SQS can do that by itself (StartMessageMoveTask), but the embedded AWS of this machine cannot, and it shows nothing
before. A message is sent before it is deleted: whatever breaks in between, none is lost, and at worst one comes twice,
which its handler bears.
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

from shared.films.arrivals import KEY
from shared.schema import TABLE_NAME
from tools import ToolError
from tools.progress import Bars

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef, SendMessageBatchRequestEntryTypeDef

STACKS = ("Media", "Jobs")
"""Those that have queues."""

BATCH = 10
"""The most that SQS takes at once."""

SHOWN = 20
SHORT = 60
"""Characters of a body that is not a message of the service."""

HIDDEN_SECONDS = 120
"""How long a message is hidden while it is shown or moved; should the command be killed, it is seen again then."""

WAIT_SECONDS = 1
"""Any wait makes SQS ask all its servers, and not some of them."""

IDLE_ROUNDS = 3
"""Answers in a row without a message to move, after which none is left."""


@dataclass(frozen=True)
class Pair:
    """A queue and its dead-letter queue, by their URLs."""

    name: str
    queue: str
    dead_letters: str


@dataclass(frozen=True)
class Letter:
    """A message in a dead-letter queue, as it is shown."""

    what: str
    video: str
    attempt: str
    age: int
    """Seconds since it was first sent."""
    receives: int


@dataclass
class Outcome:
    """What became of the messages."""

    moved: int = 0
    refused: int = 0
    """By the queue; they stay."""
    twice: int = 0
    """Of those that were moved, how many could not be deleted, so that they are in both."""


def find_pair(client: Any, env: str, name: str) -> Pair:
    """The queue of this name, by the outputs of the stacks; raises ToolError, which lists those that there are."""
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
        raise ToolError(f"There is no queue {name!r}; there are {', '.join(sorted(urls)) or 'none'}.")
    return Pair(name, *urls[name])


def _outputs(client: Any, stack: str) -> dict[str, str]:
    try:
        (described,) = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            raise ToolError(f"The stack {stack} is not deployed here: check --env, credentials and region.") from error
        raise
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}


class DeadLetters:
    """The dead-letter queue of one queue."""

    def __init__(self, pair: Pair, client: "SQSClient", now: Callable[[], float] = time.time) -> None:
        self._pair = pair
        self._client = client
        self._now = now

    def count(self) -> int:
        """How many there are; SQS calls it approximate."""
        answer = self._client.get_queue_attributes(
            QueueUrl=self._pair.dead_letters, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def peek(self, limit: int = SHOWN) -> list[Letter]:
        """Some of them, oldest first; they stay, and can be received again at once."""
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

    def move(self, limit: int | None = None, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """Send all that were there at the start to their queue, `limit` at most, and delete them here.

        What arrives meanwhile stays, so that a message which fails at once cannot go round and round.
        """
        started = self._now() * 1000
        outcome, idle = Outcome(), 0
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
        """Returns those that the queue took."""
        if not messages:
            return []
        try:
            answer = self._client.send_message_batch(
                QueueUrl=self._pair.queue, Entries=[_entry(n, message) for n, message in enumerate(messages)]
            )
        except ClientError as error:
            # Each is small enough, as it was sent once; all together they need not be.
            if "BatchRequestTooLong" not in error.response["Error"]["Code"] or len(messages) == 1:
                raise
            middle = len(messages) // 2
            return self._send(messages[:middle]) + self._send(messages[middle:])
        return [messages[int(done["Id"])] for done in answer.get("Successful", [])]

    def _delete(self, messages: "Sequence[MessageTypeDef]") -> "list[MessageTypeDef]":
        """Returns those that are gone."""
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
    """Show the dead letters and move them back, unless the person says no when `asking`; returns the exit status."""
    letters = DeadLetters(pair, client)
    console = Console(highlight=False, soft_wrap=True)
    count = letters.count()
    if not count:
        print(f"The dead-letter queue of {pair.name} is empty.")
        return 0
    shown = letters.peek()
    console.print(_grid(shown))
    if len(shown) < count:
        print(f"These are {len(shown)} of about {count}.")
    if show_only:
        return 0
    if asking and _answer(ask, f"Move {_amount(count, limit)} back to {pair.name}? Type yes: ") != "yes":
        print("Nothing was moved.")
        return 0
    with Bars().bar(f"To {pair.name}", min(count, limit or count), counted=True) as advance:
        outcome = letters.move(limit, advance)
    print(f"{outcome.moved} moved, {letters.count()} left.")
    if outcome.refused:
        print(f"{outcome.refused} were refused by the queue and stay; run the same command again.", file=sys.stderr)
    if outcome.twice:
        print(f"{outcome.twice} of those moved could not be deleted here, and would be moved again.", file=sys.stderr)
    return 1 if outcome.refused or outcome.twice else 0


def _answer(ask: Callable[[str], str], question: str) -> str:
    try:
        return ask(question).strip().lower()
    except EOFError as error:
        raise ToolError("There is no terminal to ask in, so nothing was moved; --yes moves without asking.") from error


def _amount(count: int, limit: int | None) -> str:
    return f"about {count}" if limit is None or limit >= count else f"{limit} of about {count}"


def _grid(letters: Sequence[Letter]) -> Grid:
    # An id is needed whole, also where the terminal is narrow.
    grid = Grid("message", Column("video", min_width=36), "attempt", "age", "received")
    for letter in letters:
        age = str(timedelta(seconds=letter.age))
        grid.add_row(escape(letter.what), escape(letter.video), letter.attempt, age, str(letter.receives))
    return grid


def described(body: str) -> tuple[str, str, str]:
    """What a message is, the video that it is about, and the attempt; for any other message its start."""
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
    if group:  # of a FIFO queue, which takes no message without
        entry["MessageGroupId"] = group
    return entry


def _batches(messages: "Sequence[MessageTypeDef]") -> "Iterator[Sequence[MessageTypeDef]]":
    for start in range(0, len(messages), BATCH):
        yield messages[start : start + BATCH]
