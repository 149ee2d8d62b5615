"""SQS: processing of batches, and sending of messages."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from moto.core.models import botocore_stubber

from shared.aws import runtime
from shared.aws import sqs as module
from shared.aws.messages import BatchedProcessor, GroupProcessor, Message, MessageProcessor
from shared.aws.sqs import REQUEST_ATTEMPTS, BadMessage, Queue
from shared.core.errors import TRANSIENT_ERRORS, InternalError, NewerSchema, Unavailable
from tests.integration.faults import FaultLine, Incident, Send, lose_request, lose_response, refusal


def _event(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m{number}", "body": body, "attributes": {"ApproximateReceiveCount": str(number + 1)}}
            for number, body in enumerate(bodies)
        ]
    }


def process(event: dict[str, Any], handle: Callable[[Message], object]) -> dict[str, Any]:
    """Process a batch message by message, and return the report of failures."""
    return runtime.process(event, handle, MessageProcessor())


def process_batch(event: dict[str, Any], handle: Callable[[Sequence[Message]], object]) -> dict[str, Any]:
    """Process a batch in one call, and return the failures in message order."""
    report = runtime.process(event, handle, BatchedProcessor())
    failed = {failure["itemIdentifier"] for failure in report["batchItemFailures"]}
    return _failed(*(record["messageId"] for record in event["Records"] if record["messageId"] in failed))


def process_groups(event: dict[str, Any], handle: Callable[[Sequence[Message]], object]) -> dict[str, Any]:
    """Process a batch of a FIFO queue by groups, and return the report of failures."""
    return runtime.process(event, handle, GroupProcessor())


def _failed(*ids: str) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ids]}


class TestProcess:
    def test_process_handles_each_message(self) -> None:
        handled: list[Message] = []
        assert process(_event('{"a": 1}', '{"a": 2}'), handled.append) == _failed()
        assert [(message.message_id, message.json_body) for message in handled] == [("m0", {"a": 1}), ("m1", {"a": 2})]

    def test_process_reports_only_the_failed_message(self) -> None:
        done = []

        def handle(message: Message) -> None:
            if message.json_body["a"] == 2:
                raise Unavailable
            done.append(message.message_id)

        assert process(_event('{"a": 1}', '{"a": 2}', '{"a": 3}'), handle) == _failed("m1")
        assert done == ["m0", "m2"]

    def test_batch_in_which_every_message_fails_is_reported_in_full(self) -> None:
        def handle(_: Message) -> None:
            raise ZeroDivisionError

        assert process(_event("{}", "{}"), handle) == _failed("m0", "m1")

    @pytest.mark.parametrize("body", ["", "{", "[]", "7", "null", '"text"', "\u0000", "[" * 100_000])
    def test_process_reports_a_message_that_is_not_a_json_object_and_handles_the_rest(self, body: str) -> None:
        done: list[str] = []

        def handle(message: Message) -> None:
            assert message.json_body == {}
            done.append(message.message_id)

        assert process(_event("{}", body, "{}"), handle) == _failed("m1")
        assert done == ["m0", "m2"]

    def test_process_accepts_an_empty_batch(self) -> None:
        assert process(_event(), lambda _: None) == _failed()

    @pytest.mark.parametrize(
        ("error", "level"), [*((error(), "WARNING") for error in TRANSIENT_ERRORS), (OSError(), "ERROR")]
    )
    def test_process_logs_transient_errors_as_warnings_and_others_as_errors(
        self, caplog: pytest.LogCaptureFixture, error: Exception, level: str
    ) -> None:
        def handle(_: Message) -> None:
            raise error

        assert process(_event("{}"), handle) == _failed("m0")
        assert [record.levelname for record in caplog.records] == [level]

    def test_log_has_the_error_and_not_the_message_body(self, caplog: pytest.LogCaptureFixture) -> None:
        def handle(_: Message) -> None:
            raise BadMessage("It is of no known kind.")

        process(_event('{"token": "hidden"}', "hidden"), handle)
        lines = [vars(record) for record in caplog.records]
        assert [line["message_id"] for line in lines] == ["m0", "m1"]
        assert "no known kind" in lines[0]["reason"]
        assert not any("hidden" in repr(line) for line in lines)


class TestProcessBatch:
    def test_process_batch_passes_all_messages_in_one_call(self) -> None:
        calls: list[list[str]] = []
        response = process_batch(
            _event("{}", "{}"), lambda batch: calls.append([message.message_id for message in batch])
        )
        assert (response, calls) == (_failed(), [["m0", "m1"]])

    def test_process_batch_reports_and_skips_an_invalid_message(self) -> None:
        calls: list[list[str]] = []
        response = process_batch(
            _event("{}", "[]"), lambda batch: calls.append([message.message_id for message in batch])
        )
        assert (response, calls) == (_failed("m1"), [["m0"]])

    def test_process_batch_without_a_valid_message_calls_no_handler(self) -> None:
        def handle(_: object) -> None:
            raise AssertionError

        assert process_batch(_event("["), handle) == _failed("m0")

    def test_an_empty_batch_has_an_empty_report_and_calls_nothing(self) -> None:
        calls: list[object] = []
        assert (process_batch(_event(), calls.append), calls) == (_failed(), [])

    def _calls(
        self, bodies: Sequence[str], error: type[Exception] = ZeroDivisionError
    ) -> tuple[dict[str, Any], list[list[str]]]:
        """Process a batch in which every message with content fails. Return the reported failures, and the messages of
        each call."""
        calls: list[list[str]] = []

        def handle(batch: Sequence[Message]) -> None:
            calls.append([message.message_id for message in batch])
            if any(message.json_body for message in batch):
                raise error

        return process_batch(_event(*bodies), handle), calls

    def test_failed_batch_is_split_in_halves(self) -> None:
        report, calls = self._calls(["{}", '{"a": 1}', "{}"])
        assert report == _failed("m1")
        assert calls == [["m0", "m1", "m2"], ["m0"], ["m1", "m2"], ["m1"], ["m2"]]

    def test_process_batch_finds_one_failure_of_a_thousand_by_bisection(self) -> None:
        report, calls = self._calls(["{}"] * 700 + ['{"a": 1}'] + ["{}"] * 299)
        assert report == _failed("m700")
        assert len(calls) == 1 + 2 * 10

    def test_an_item_of_a_newer_release_fails_only_its_own_message(self) -> None:
        assert self._calls(["{}", '{"a": 1}', "{}"], NewerSchema)[0] == _failed("m1")

    def test_batch_in_which_every_message_fails_is_reported_in_full(self) -> None:
        assert self._calls(['{"a": 1}'] * 5)[0] == _failed(*(f"m{number}" for number in range(5)))

    @pytest.mark.parametrize("error", [error() for error in TRANSIENT_ERRORS])
    def test_transient_error_redelivers_the_complete_batch(self, error: Exception) -> None:
        calls: list[int] = []

        def handle(batch: Sequence[Message]) -> None:
            calls.append(len(batch))
            raise error

        assert process_batch(_event("{}", "[]", "{}"), handle) == _failed("m0", "m1", "m2")
        assert calls == [2]


def _in_groups(*messages: tuple[str, str]) -> dict[str, Any]:
    """Return an event of a FIFO queue. `messages` are pairs of group and body."""
    event = _event(*(body for _, body in messages))
    for record, (group, _) in zip(event["Records"], messages, strict=True):
        record["attributes"]["MessageGroupId"] = group
    return event


class TestProcessGroups:
    def test_messages_of_a_group_are_passed_in_one_call_in_order(self) -> None:
        calls: list[list[str]] = []
        event = _in_groups(("a", "{}"), ("b", "{}"), ("a", "{}"))
        response = process_groups(event, lambda group: calls.append([message.message_id for message in group]))
        assert (response, calls) == (_failed(), [["m0", "m2"], ["m1"]])

    def test_an_empty_batch_has_an_empty_report_and_calls_nothing(self) -> None:
        calls: list[object] = []
        assert (process_groups(_event(), calls.append), calls) == (_failed(), [])

    @pytest.mark.parametrize("error", [error() for error in TRANSIENT_ERRORS])
    def test_process_groups_fails_only_the_group_with_a_transient_error(self, error: Exception) -> None:
        calls: list[str] = []

        def handle(group: Sequence[Message]) -> None:
            calls.append(group[0].message_id)
            if len(group) == 2:
                raise error

        event = _in_groups(("a", "{}"), ("b", "{}"), ("a", "{}"))
        assert process_groups(event, handle) == _failed("m0", "m2")
        assert calls == ["m0", "m1"]

    def test_process_groups_handles_messages_before_a_failure_and_fails_those_after(self) -> None:
        done: list[str] = []

        def handle(group: Sequence[Message]) -> None:
            if any(message.json_body for message in group):
                raise ZeroDivisionError
            done.extend(message.message_id for message in group)

        event = _in_groups(("a", "{}"), ("a", '{"a": 1}'), ("a", "{}"), ("b", "{}"))
        assert process_groups(event, handle) == _failed("m1", "m2")
        assert done == ["m0", "m3"]

    def test_process_groups_fails_messages_after_an_invalid_one(self) -> None:
        calls: list[list[str]] = []
        event = _in_groups(("a", "{}"), ("a", "["), ("a", "{}"), ("b", "["))
        response = process_groups(
            event, lambda group: calls.append([message.message_id for message in group if message.json_body == {}])
        )
        assert (response, calls) == (_failed("m1", "m2", "m3"), [["m0"]])


def _sqs_busy(_: Send) -> AWSResponse:
    return refusal("ServiceUnavailable", 503)


def _sqs_throttled(_: Send) -> AWSResponse:
    return refusal("ThrottlingException")


def _sqs_denied(_: Send) -> AWSResponse:
    return refusal("AccessDeniedException")


FAULTS: dict[str, Incident] = {
    "busy": _sqs_busy,
    "throttled": _sqs_throttled,
    "request lost": lose_request,
    "answer lost": lose_response,
}


class TestSend:
    @pytest.fixture
    def queue(self, account: None) -> Queue:
        client = module.make_client()
        return Queue(client.create_queue(QueueName="q")["QueueUrl"], client, sleep=lambda _: None)

    def _bodies(self, queue: Queue) -> list[Any]:
        received = boto3.client("sqs").receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in received.get("Messages", [])]

    def test_a_message_arrives(self, queue: Queue) -> None:
        queue.send({"schema": "x/1", "text": "naïve \U0001f3ac"})
        assert self._bodies(queue) == [{"schema": "x/1", "text": "naïve \U0001f3ac"}]

    def test_delayed_message_is_not_received_before_its_delay(self, queue: Queue) -> None:
        queue.send({}, delay_seconds=900)
        assert self._bodies(queue) == []

    def test_transient_fault_is_retried(self, queue: Queue) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        for incident in FAULTS.values():
            line.arm(incident, at=0)
            queue.send({"n": 1})
            assert len(line.calls) == 2
        # A request that succeeded although its response was lost is sent twice: delivery is at least once.
        assert len(self._bodies(queue)) == len(FAULTS) + 1

    def test_send_raises_unavailable_when_a_fault_persists(self, queue: Queue) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        for incident in FAULTS.values():
            line.arm(incident)
            with pytest.raises(Unavailable, match="queue is busy"):
                queue.send({"n": 1})
            assert len(line.calls) == REQUEST_ATTEMPTS

    def test_permanent_refusal_is_not_retried(self, queue: Queue) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        line.arm(_sqs_denied)
        with pytest.raises(InternalError):
            queue.send({"n": 1})
        assert len(line.calls) == 1


class TestSendBatch:
    @pytest.fixture
    def queue(self, account: None) -> Queue:
        client = module.make_client()
        return Queue(client.create_queue(QueueName="q")["QueueUrl"], client, sleep=lambda _: None)

    @staticmethod
    def _numbers(queue: Queue) -> list[int]:
        numbers: list[int] = []
        while received := queue.client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10).get("Messages"):
            numbers += [json.loads(message["Body"])["n"] for message in received]
        return sorted(numbers)

    @pytest.mark.parametrize(("count", "requests"), [(0, 0), (1, 1), (10, 1), (11, 2), (25, 3)])
    def test_ten_messages_are_one_request(self, queue: Queue, count: int, requests: int) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        line.arm(lambda _: None)
        queue.send_all([{"n": number} for number in range(count)])
        assert line.calls == ["SendMessageBatch"] * requests
        assert self._numbers(queue) == list(range(count))

    def test_transient_fault_is_retried(self, queue: Queue) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        for incident in FAULTS.values():
            line.arm(incident, at=0)
            queue.send_all([{"n": 1}, {"n": 2}])
            assert len(line.calls) == 2
        line.disarm()
        assert set(self._numbers(queue)) == {1, 2}

    def test_send_all_raises_unavailable_when_a_fault_persists(self, queue: Queue) -> None:
        line = FaultLine(queue.client, transport=botocore_stubber)
        line.arm(_sqs_busy)
        with pytest.raises(Unavailable, match="queue is busy"):
            queue.send_all([{"n": 1}])
        assert len(line.calls) == REQUEST_ATTEMPTS

    def test_send_all_resends_only_the_messages_that_failed(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, requests = queue.client.send_message_batch, list[list[str]]()

        def refuse_the_second(**request: Any) -> Any:
            requests.append([entry["MessageBody"] for entry in request["Entries"]])
            if len(requests) > 1:
                return send(**request)
            first, second = request["Entries"]
            response: Any = send(QueueUrl=request["QueueUrl"], Entries=[first])
            return response | {"Failed": [{"Id": second["Id"], "Code": "InternalError", "SenderFault": False}]}

        monkeypatch.setattr(queue.client, "send_message_batch", refuse_the_second)
        queue.send_all([{"n": 1}, {"n": 2}])
        assert requests == [['{"n":1}', '{"n":2}'], ['{"n":2}']]
        assert self._numbers(queue) == [1, 2]

    def test_message_that_sqs_rejects_permanently_is_an_internal_error(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused = {"Failed": [{"Id": "0", "Code": "InvalidMessageContents", "SenderFault": True}]}
        monkeypatch.setattr(queue.client, "send_message_batch", lambda **_: refused)
        with pytest.raises(InternalError, match="InvalidMessageContents"):
            queue.send_all([{"n": 1}])

    def test_send_all_sends_each_message_once_in_the_group_of_its_video(self, account: None) -> None:
        client = module.make_client()
        created = client.create_queue(
            QueueName="q.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        )
        queue = Queue(created["QueueUrl"], client)
        bodies = [{"videoId": "v", "n": 1}, {"videoId": "w", "n": 2}]
        queue.send_all(bodies)
        queue.send_all(bodies)
        received = client.receive_message(
            QueueUrl=queue.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
        )
        groups = {message["Attributes"]["MessageGroupId"]: message["Body"] for message in received["Messages"]}
        assert groups == {"v": '{"videoId":"v","n":1}', "w": '{"videoId":"w","n":2}'}
        assert len(received["Messages"]) == 2
