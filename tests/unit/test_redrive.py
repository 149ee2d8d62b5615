"""`python -m tools redrive`: shows dead letters, then moves them back to their queue without losing any."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError

from shared.processing.messages import job_message, purge_message
from tools import ToolError
from tools import redrive as module
from tools.__main__ import main
from tools.redrive import DeadLetters, Letter, Pair, described, find_pair, redrive

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

UPLOAD = "0123456789a-0123456789abcdef"
VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
JOB: Any = {
    "videoId": VIDEO,
    "kind": "poster",
    "inputHash": "9f86d081",
    "attempt": 2,
    "input": {"source": "s3://b/k", "etag": "e", "fileSize": 1},
}


@pytest.fixture
def client(account: None, monkeypatch: pytest.MonkeyPatch) -> "SQSClient":
    """Return a client of SQS. The tool does not wait for missing messages."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0)
    return boto3.client("sqs")


@pytest.fixture
def pair(client: "SQSClient") -> Pair:
    """Return an empty queue with its empty dead-letter queue."""
    urls = [client.create_queue(QueueName=name)["QueueUrl"] for name in ("thumbnails", "thumbnails-dead")]
    return Pair("thumbnails", *urls)


@pytest.fixture
def letters(pair: Pair, client: "SQSClient") -> DeadLetters:
    """Return the dead-letter queue under test."""
    return DeadLetters(pair, client)


def bodies(client: "SQSClient", url: str) -> list[str]:
    """Return the bodies of the visible messages of a queue, sorted."""
    texts = []
    while messages := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        texts += [message["Body"] for message in messages]
    return sorted(texts)


def fill(client: "SQSClient", url: str, count: int) -> list[str]:
    """Send messages, and return their bodies in order."""
    sent = [f"{number:03}" for number in range(count)]
    for body in sent:
        client.send_message(QueueUrl=url, MessageBody=body)
    return sent


class PatchedClient:
    """Client with one operation replaced by `replacement`."""

    def __init__(self, client: "SQSClient", operation: str, replacement: Callable[..., Any]) -> None:
        self._client, self._operation, self._replacement = client, operation, replacement

    def __getattr__(self, name: str) -> Any:
        return self._replacement if name == self._operation else getattr(self._client, name)


def with_replaced(client: "SQSClient", operation: str, replacement: Callable[..., Any]) -> Any:
    """Return the client with one operation replaced by another function."""
    return PatchedClient(client, operation, replacement)


class Stacks:
    """Session with a minimal CloudFormation client, because moto's CloudFormation needs extra packages."""

    def __init__(self, outputs: dict[str, dict[str, str]]) -> None:
        self._outputs = outputs

    def client(self, service: str) -> Any:
        """Return the session's client of a service."""
        return self if service == "cloudformation" else boto3.client("sqs")

    def describe_stacks(self, **request: str) -> Any:
        """Return the outputs of one stack, or raise an error if the stack does not exist."""
        name = request["StackName"]
        if name not in self._outputs:
            message = f"Stack with id {name} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        outputs = self._outputs[name].items()
        return {"Stacks": [{"Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs]}]}


class TestMoving:
    def test_move_returns_all_messages_to_the_queue(
        self, letters: DeadLetters, client: "SQSClient", pair: Pair
    ) -> None:
        sent = fill(client, pair.dead_letters, 23)
        done: list[int] = []
        outcome = letters.move(progress=done.append)
        assert (outcome.moved, outcome.refused, outcome.twice) == (23, 0, 0)
        assert max(done) == 23
        assert bodies(client, pair.queue) == sent
        assert letters.count() == 0

    def test_limit_bounds_the_number_of_moved_messages(
        self, letters: DeadLetters, client: "SQSClient", pair: Pair
    ) -> None:
        fill(client, pair.dead_letters, 23)
        assert letters.move(limit=12).moved == 12
        assert len(bodies(client, pair.queue)) == 12
        assert letters.count() == 11

    def test_move_keeps_message_attributes(self, letters: DeadLetters, client: "SQSClient", pair: Pair) -> None:
        attributes: Any = {"trace": {"DataType": "String", "StringValue": "t-1"}}
        client.send_message(QueueUrl=pair.dead_letters, MessageBody="m", MessageAttributes=attributes)
        letters.move()
        (message,) = client.receive_message(QueueUrl=pair.queue, MessageAttributeNames=["All"])["Messages"]
        assert message["MessageAttributes"] == attributes

    def test_crash_between_send_and_delete_loses_no_message(self, client: "SQSClient", pair: Pair) -> None:
        """Test a crash that leaves the messages in both queues. Handlers tolerate such a repetition."""
        sent = fill(client, pair.dead_letters, 3)

        def crash(**_: Any) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            DeadLetters(pair, with_replaced(client, "delete_message_batch", crash)).move()
        assert DeadLetters(pair, client).move().moved == 3
        assert bodies(client, pair.queue) == sorted(2 * sent)

    def test_failed_send_leaves_all_messages_visible(self, client: "SQSClient", pair: Pair) -> None:
        sent = fill(client, pair.dead_letters, 3)

        def refuse(**_: Any) -> None:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "SendMessageBatch")

        with pytest.raises(ClientError):
            DeadLetters(pair, with_replaced(client, "send_message_batch", refuse)).move()
        assert bodies(client, pair.dead_letters) == sent

    def test_message_refused_by_the_queue_stays_and_the_others_are_moved(self, client: "SQSClient", pair: Pair) -> None:
        fill(client, pair.dead_letters, 12)

        def send(**request: Any) -> Any:
            good = [entry for entry in request["Entries"] if entry["MessageBody"] != "007"]
            bad = [{"Id": entry["Id"]} for entry in request["Entries"] if entry["MessageBody"] == "007"]
            response = client.send_message_batch(QueueUrl=request["QueueUrl"], Entries=good)
            return {"Successful": response["Successful"], "Failed": bad}

        outcome = DeadLetters(pair, with_replaced(client, "send_message_batch", send)).move()
        assert (outcome.moved, outcome.refused) == (11, 1)
        assert bodies(client, pair.dead_letters) == ["007"]
        assert "007" not in bodies(client, pair.queue)

    def test_message_that_cannot_be_deleted_is_reported(self, client: "SQSClient", pair: Pair) -> None:
        fill(client, pair.dead_letters, 2)

        def delete(**request: Any) -> Any:
            return {"Failed": [{"Id": entry["Id"]} for entry in request["Entries"]]}

        outcome = DeadLetters(pair, with_replaced(client, "delete_message_batch", delete)).move()
        assert (outcome.moved, outcome.twice) == (2, 2)
        assert len(bodies(client, pair.dead_letters)) == len(bodies(client, pair.queue)) == 2

    def test_batch_too_large_for_sqs_is_split(self, client: "SQSClient", pair: Pair) -> None:
        sent = fill(client, pair.dead_letters, 10)

        def send(**request: Any) -> Any:
            if len(request["Entries"]) > 3:
                code = "AWS.SimpleQueueService.BatchRequestTooLong"
                raise ClientError({"Error": {"Code": code, "Message": ""}}, "SendMessageBatch")
            return client.send_message_batch(**request)

        assert DeadLetters(pair, with_replaced(client, "send_message_batch", send)).move().moved == 10
        assert bodies(client, pair.queue) == sent

    def test_messages_that_fail_again_during_the_move_are_not_moved_again(
        self, client: "SQSClient", pair: Pair
    ) -> None:
        """Make the handler fail immediately, so that each message sent to the queue returns to the dead-letter queue."""
        fill(client, pair.dead_letters, 5)

        def send(**request: Any) -> Any:
            return client.send_message_batch(QueueUrl=pair.dead_letters, Entries=request["Entries"])

        messages = client.receive_message(
            QueueUrl=pair.dead_letters,
            MaxNumberOfMessages=10,
            VisibilityTimeout=0,
            MessageSystemAttributeNames=["SentTimestamp"],
        )["Messages"]
        newest = max(int(message["Attributes"]["SentTimestamp"]) for message in messages)
        # Half a millisecond after the newest message, to check that rounding does not exclude it.
        started = (newest + 0.5) / 1000
        letters = DeadLetters(pair, with_replaced(client, "send_message_batch", send), now=lambda: started)
        assert letters.move(limit=50).moved == 5
        assert letters.count() == 5

    def test_an_empty_queue_moves_nothing(self, letters: DeadLetters) -> None:
        assert letters.move().moved == 0


class TestPeeking:
    def test_peek_returns_messages_and_leaves_them_visible(
        self, letters: DeadLetters, client: "SQSClient", pair: Pair
    ) -> None:
        body = json.dumps(job_message(JOB, "media"))
        client.send_message(QueueUrl=pair.dead_letters, MessageBody=body)
        (letter,) = letters.peek()
        assert letter == Letter("job/1 poster", VIDEO, "2", letter.age, 1)
        assert letters.peek()[0].receives == 2
        assert bodies(client, pair.dead_letters) == [body]

    def test_peek_returns_at_most_its_limit(self, letters: DeadLetters, client: "SQSClient", pair: Pair) -> None:
        fill(client, pair.dead_letters, 25)
        assert len(letters.peek(12)) == 12
        assert letters.count() == 25

    def test_peek_sorts_by_age_oldest_first(self, client: "SQSClient", pair: Pair) -> None:
        received = [
            {
                "MessageId": name,
                "ReceiptHandle": name,
                "Body": name,
                "Attributes": {"SentTimestamp": str(sent * 1000), "ApproximateReceiveCount": "6"},
            }
            for name, sent in (("young", 900), ("old", 100))
        ]
        responses = [{"Messages": received}, {}]
        patched = with_replaced(client, "receive_message", lambda **_: responses.pop(0))
        patched._client = with_replaced(client, "change_message_visibility_batch", lambda **_: None)
        ages = [(letter.what, letter.age) for letter in DeadLetters(pair, patched, now=lambda: 1000.0).peek()]
        assert ages == [("old", 900), ("young", 100)]


@pytest.mark.parametrize(
    ("body", "description"),
    [
        (json.dumps(job_message(JOB, "media")), ("job/1 poster", VIDEO, "2")),
        (json.dumps(purge_message(VIDEO)), ("purge/1", VIDEO, "")),
        ('{"schema": "video-metadata/purge-playlist/1", "playlistId": "p"}', ("purge-playlist/1", "p", "")),
        (
            json.dumps(
                {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"object": {"key": f"{VIDEO}/{UPLOAD}"}}}]}
            ),
            ("ObjectCreated:Put", VIDEO, ""),
        ),
        ('{"Event": "s3:TestEvent"}', ('{"Event": "s3:TestEvent"}', "", "")),
        ("no\nJSON", ("no JSON", "", "")),
        ("x" * 100, ("x" * 59 + "…", "", "")),
        ("[]", ("[]", "", "")),
    ],
)
def test_every_kind_of_message_is_described(body: str, description: tuple[str, str, str]) -> None:
    assert described(body) == description


class TestCommand:
    @pytest.fixture
    def stacks(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Stacks:
        """Return the stacks of production, with their outputs for queues."""
        stacks = Stacks(
            {
                "VideoMetadata-prod-Jobs": {
                    "ThumbnailsQueueUrl": pair.queue,
                    "ThumbnailsDeadLettersUrl": pair.dead_letters,
                    "TranscodeQueueArn": "arn",
                },
                "VideoMetadata-prod-Media": {
                    "ArrivalsQueueUrl": "q",
                    "ArrivalsDeadLettersUrl": "d",
                    "MediaBucket": "b",
                },
            }
        )
        monkeypatch.setattr("tools.__main__.session", lambda: stacks)
        return stacks

    ARGUMENTS = ("redrive", "--queue", "thumbnails", "--env", "prod")

    def test_redrive_shows_messages_then_moves_them(
        self, stacks: Stacks, client: "SQSClient", pair: Pair, capsys: pytest.CaptureFixture[str]
    ) -> None:
        client.send_message(QueueUrl=pair.dead_letters, MessageBody=json.dumps(job_message(JOB, "media")))
        assert main([*self.ARGUMENTS, "--yes"]) == 0
        printed = capsys.readouterr().out
        assert "job/1 poster" in printed
        assert VIDEO in printed
        assert printed.endswith("1 moved, 0 left.\n")
        assert len(bodies(client, pair.queue)) == 1

    def test_show_option_lists_messages_and_moves_none(
        self, stacks: Stacks, client: "SQSClient", pair: Pair, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fill(client, pair.dead_letters, 21)
        assert main([*self.ARGUMENTS, "--show"]) == 0
        assert capsys.readouterr().out.endswith("Showing 20 of about 21.\n")
        assert bodies(client, pair.queue) == []

    def test_redrive_of_an_empty_queue_succeeds(self, stacks: Stacks, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*self.ARGUMENTS]) == 0
        assert capsys.readouterr().out == "The dead-letter queue of thumbnails is empty.\n"

    def test_unknown_queue_is_refused_with_the_valid_names(
        self, stacks: Stacks, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["redrive", "--queue", "posters", "--env", "prod"]) == 1
        assert capsys.readouterr().err == "The queue 'posters' does not exist. Use arrivals, thumbnails.\n"

    def test_unknown_environment_is_refused(self, stacks: Stacks, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["redrive", "--queue", "thumbnails"]) == 1
        assert "The stack VideoMetadata-dev-Media is not deployed here" in capsys.readouterr().err

    def test_service_that_is_not_running_is_reported(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def missing(_: object) -> None:
            raise ToolError("The service is not running.")

        monkeypatch.setattr("tools.__main__.use_local_service", missing)
        assert main(["redrive", "--queue", "thumbnails", "--local"]) == 1
        assert capsys.readouterr().err == "The service is not running.\n"

    def test_aws_error_is_reported_in_one_sentence(
        self, stacks: Stacks, client: "SQSClient", pair: Pair, capsys: pytest.CaptureFixture[str]
    ) -> None:
        client.delete_queue(QueueUrl=pair.dead_letters)
        assert main([*self.ARGUMENTS]) == 1
        assert capsys.readouterr().err.startswith("AWS returned an error: ")

    def test_show_and_yes_options_exclude_each_other(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stopped:
            main([*self.ARGUMENTS, "--show", "--yes"])
        assert stopped.value.code == 2

    def test_outputs_of_buckets_are_not_queues(self, stacks: Stacks) -> None:
        assert find_pair(stacks, "prod", "arrivals") == Pair("arrivals", "q", "d")


class TestConfirmation:
    @pytest.mark.parametrize(("response", "remaining"), [("yes", 0), ("Yes ", 0), ("y", 2), ("", 2), ("no", 2)])
    def test_redrive_moves_messages_only_after_yes(
        self, client: "SQSClient", pair: Pair, response: str, remaining: int
    ) -> None:
        fill(client, pair.dead_letters, 2)
        questions: list[str] = []

        def confirm(question: str) -> str:
            questions.append(question)
            return response

        assert redrive(pair, client, ask=confirm) == 0
        assert questions == ["Move about 2 back to thumbnails? Type yes: "]
        assert DeadLetters(pair, client).count() == remaining

    def test_question_states_the_limit_and_the_total(self, client: "SQSClient", pair: Pair) -> None:
        fill(client, pair.dead_letters, 2)
        questions: list[str] = []

        def confirm(question: str) -> str:
            questions.append(question)
            return "yes"

        redrive(pair, client, limit=1, ask=confirm)
        assert questions == ["Move 1 of about 2 back to thumbnails? Type yes: "]

    def test_redrive_without_a_terminal_moves_nothing(self, client: "SQSClient", pair: Pair) -> None:
        fill(client, pair.dead_letters, 2)

        def confirm(_: str) -> str:
            raise EOFError

        with pytest.raises(ToolError, match="--yes"):
            redrive(pair, client, ask=confirm)
        assert DeadLetters(pair, client).count() == 2

    def test_messages_that_could_not_be_moved_are_reported(
        self, client: "SQSClient", pair: Pair, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fill(client, pair.dead_letters, 2)

        def refuse(**_: Any) -> Any:
            return {"Failed": []}

        assert redrive(pair, with_replaced(client, "send_message_batch", refuse), asking=False) == 1
        captured = capsys.readouterr()
        assert captured.out.endswith("0 moved, 2 left.\n")
        assert captured.err == "2 were rejected by the queue. Run the same command again.\n"

    def test_message_left_in_both_queues_is_reported(
        self, client: "SQSClient", pair: Pair, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fill(client, pair.dead_letters, 1)

        def refuse(**_: Any) -> Any:
            return {"Failed": []}

        assert redrive(pair, with_replaced(client, "delete_message_batch", refuse), asking=False) == 1
        assert capsys.readouterr().err.startswith("1 of the moved messages are still in the dead-letter queue")


def test_messages_of_a_fifo_queue_keep_their_groups(client: "SQSClient") -> None:
    urls = [
        client.create_queue(QueueName=name, Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"})[
            "QueueUrl"
        ]
        for name in ("tallies.fifo", "tallies-dead.fifo")
    ]
    bodies = {group: json.dumps({"videoId": group}) for group in ("one", "two")}
    for group, body in bodies.items():
        client.send_message(QueueUrl=urls[1], MessageBody=body, MessageGroupId=group)
    assert DeadLetters(Pair("tallies", *urls), client).move().moved == 2
    received = client.receive_message(
        QueueUrl=urls[0], MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
    )
    assert {message["Attributes"]["MessageGroupId"]: message["Body"] for message in received["Messages"]} == bodies
