"""Tests of `Table`: conversion of DynamoDB's errors to the service's errors, retries, and concurrent requests."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from local.stream_records import stream_record
from local.testbed.harness import Api, make_api, record_operations
from local.testbed.wire import WholeClient
from shared.aws import boto3_client
from shared.aws.dynamodb import LONGEST_WAIT, REQUEST_ATTEMPTS, SHORTEST_WAIT, Table, gather, require_all
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.stream import Record
from shared.core.deadline import has_time
from shared.core.errors import (
    ContentTooLarge,
    InternalError,
    NewerSchema,
    NotApplied,
    ServiceError,
    Throttled,
    Unavailable,
)
from shared.schema import SCHEMA_VERSION, VIDEO
from shared.videos.store import VideoStore
from tests.logs import metrics

KEY = {"pk": "p", "sk": "s"}
ABSENT = Expression("attribute_not_exists(#pk)", {"#pk": "pk"})


def _error(code: str, message: str = "", **more: Any) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": message}, **more}
    return ClientError(response, "Any")


def _cancelled(*reasons: dict[str, Any]) -> ClientError:
    return _error("TransactionCanceledException", CancellationReasons=list(reasons))


def _reasons(reason: str) -> list[dict[str, str]]:
    return [{"reason": reason, "resource": "arn:aws:dynamodb:eu-west-1:111122223333:table/T"}]


class _Client:
    """Client whose operations return or raise the given outcomes in order. The last outcome is repeated."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def operation(**parameters: Any) -> Any:
            self.calls.append(parameters)
            outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return operation


def _table(*outcomes: Any) -> tuple[Table, _Client]:
    client: Any = _Client(*outcomes)
    return Table("T", client, sleep=lambda _: None), client


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (_error("ThrottlingException"), Throttled),
        (_error("ThrottlingException", throttlingReasons=_reasons("TableWriteKeyRangeThroughputExceeded")), Throttled),
        (_error("ThrottlingException", throttlingReasons=_reasons("TableWriteAccountLimitExceeded")), NotApplied),
        (_error("ProvisionedThroughputExceededException"), Throttled),
        (
            _error(
                "ProvisionedThroughputExceededException",
                ThrottlingReasons=_reasons("TableWriteProvisionedThroughputExceeded"),
            ),
            NotApplied,
        ),
        (_error("RequestLimitExceeded"), NotApplied),
        (_error("InternalServerError"), Unavailable),
        (_error("ServiceUnavailable"), Unavailable),
        (_error("InternalFailure", ResponseMetadata={"HTTPStatusCode": 500}), Unavailable),
        (_error("502", ResponseMetadata={"HTTPStatusCode": 502}), Unavailable),
        (ReadTimeoutError(endpoint_url="x"), Unavailable),
        (ConnectTimeoutError(endpoint_url="x"), NotApplied),
        (EndpointConnectionError(endpoint_url="x"), NotApplied),
        (_error("ValidationException", "Item size has exceeded the maximum allowed size"), ContentTooLarge),
        (_error("ValidationException", "Item size to update has exceeded the maximum allowed size"), ContentTooLarge),
        (_error("ValidationException", "Invalid UpdateExpression"), InternalError),
        (_error("AccessDeniedException"), InternalError),
        (_error("ResourceNotFoundException"), InternalError),
        (_cancelled({"Code": "None"}, {"Code": "ThrottlingError"}), NotApplied),
        (_cancelled({"Code": "ProvisionedThroughputExceeded"}, {"Code": "None"}), NotApplied),
        (_cancelled({"Code": "ValidationError", "Message": "Item size to update has exceeded"}), ContentTooLarge),
        (_cancelled({"Code": "ValidationError", "Message": "other"}), InternalError),
    ],
    ids=repr,
)
def test_failure_is_converted_to_an_error_of_the_service(failure: Exception, expected: type[ServiceError]) -> None:
    table, _ = _table(failure)
    with pytest.raises(expected) as raised:
        table.transact([table.put(KEY, condition=ABSENT)])
    assert type(raised.value) is expected


def test_throttled_write_with_an_alternative_is_not_retried() -> None:
    table, client = _table(_error("ThrottlingException"))
    with pytest.raises(Throttled):
        table.write(table.put(KEY, condition=ABSENT), elsewhere=True)
    assert len(client.calls) == 1


def test_write_with_a_lost_response_is_not_reported_as_throttled() -> None:
    table, _ = _table(ReadTimeoutError(endpoint_url="x"), _error("ThrottlingException"))
    with pytest.raises(Unavailable) as raised:
        table.write(table.put(KEY, condition=ABSENT), elsewhere=True)
    assert type(raised.value) is Unavailable


def test_failed_condition_has_the_conflicting_item() -> None:
    item = {"pk": {"S": "p"}, "n": {"N": "1"}}
    table, _ = _table(_error("ConditionalCheckFailedException", Item=item))
    with pytest.raises(ConditionFailed) as raised:
        table.write(table.put(KEY, condition=ABSENT))
    assert raised.value.item == {"pk": "p", "n": 1}


def test_cancelled_transaction_names_the_failed_condition() -> None:
    table, _ = _table(_cancelled({"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": {"n": {"N": "1"}}}))
    with pytest.raises(ConditionFailed) as raised:
        table.transact([table.put(KEY, condition=ABSENT), table.put(KEY, condition=ABSENT)])
    assert (raised.value.position, raised.value.item) == (1, {"n": 1})


def test_transaction_conflict_is_retried_with_the_same_token() -> None:
    table, client = _table(_cancelled({"Code": "TransactionConflict"}), {})
    table.transact([table.put(KEY, condition=ABSENT)])
    assert len({call["ClientRequestToken"] for call in client.calls}) == 1
    assert len(client.calls) == 2


def test_persistent_transaction_conflict_raises_an_error() -> None:
    table, client = _table(_error("TransactionConflictException"))
    with pytest.raises(TransactionConflict):
        table.write(table.put(KEY, condition=ABSENT))
    assert len(client.calls) == REQUEST_ATTEMPTS


@pytest.mark.parametrize("failure", [ReadTimeoutError(endpoint_url="x"), _error("InternalServerError")], ids=repr)
def test_only_idempotent_requests_are_retried_after_an_unknown_outcome(failure: Exception) -> None:
    requests: dict[Callable[[Table], object], int] = {
        lambda table: table.get(KEY): REQUEST_ATTEMPTS,
        lambda table: table.write(table.put(KEY, condition=ABSENT)): REQUEST_ATTEMPTS,
        lambda table: table.write(table.update(KEY, Expression("ADD #n :one"))): 1,
    }
    for send, calls in requests.items():
        table, client = _table(failure)
        with pytest.raises(Unavailable):
            send(table)
        assert len(client.calls) == calls


def test_retry_waits_grow_up_to_a_limit() -> None:
    waits: list[float] = []
    table = Table("T", cast(Any, _Client(ReadTimeoutError(endpoint_url="x"))), attempts=9, sleep=waits.append)
    with pytest.raises(Unavailable):
        table.get(KEY)
    assert len(waits) == 8
    assert waits[0] <= SHORTEST_WAIT
    assert max(waits) <= LONGEST_WAIT


def test_unprocessed_keys_are_requested_again() -> None:
    unprocessed = {"T": {"Keys": [{"pk": {"S": "b"}}]}}
    table, client = _table(
        {"Responses": {"T": [{"pk": {"S": "a"}}]}, "UnprocessedKeys": unprocessed},
        {"Responses": {}, "UnprocessedKeys": unprocessed},
        {"Responses": {"T": [{"pk": {"S": "b"}}]}, "UnprocessedKeys": {}},
    )
    assert table.batch_get([{"pk": "a"}, {"pk": "b"}]) == [{"pk": "a"}, {"pk": "b"}]
    assert [call["RequestItems"] for call in client.calls][1:] == [unprocessed, unprocessed]


def test_keys_that_stay_unprocessed_raise_unavailable() -> None:
    table, client = _table({"Responses": {}, "UnprocessedKeys": {"T": {"Keys": [{"pk": {"S": "b"}}]}}})
    with pytest.raises(Unavailable):
        table.batch_get([{"pk": "b"}])
    assert len(client.calls) == REQUEST_ATTEMPTS


def test_batches_of_a_hundred_keys_are_read_concurrently() -> None:
    events: list[str] = []

    class Recording(WholeClient):
        def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
            keys = parameters["RequestItems"]["T"]["Keys"]
            events.append(f"{operation} of {len(keys)}")

            def respond() -> Any:
                events.append("answered")
                return {"Responses": {"T": keys}}

            return respond

    keys = [{"pk": str(number)} for number in range(101)]
    table = Table("T", Recording("http://localhost", None))

    assert table.batch_get(keys) == keys
    assert events == ["BatchGetItem of 100", "BatchGetItem of 1", "answered", "answered"]


def test_update_names_only_changed_attributes() -> None:
    change = change_between({"same": 1, "old": 1, "gone": 1, "flag": True}, {"same": 1, "old": 2, "new": 3, "flag": 1})
    assert change.text == "SET #s0 = :s0, #s1 = :s1, #s2 = :s2 REMOVE #r0"
    assert {change.names[f"#s{n}"]: change.values[f":s{n}"] for n in range(3)} == {"flag": 1, "new": 3, "old": 2}
    assert change.names["#r0"] == "gone"
    assert change_between({"a": {"b": {1, 2}} and 1}, {"a": 1}).text == ""


class TestResponseParser:
    """The fast response parser of boto3's client returns the same values as botocore's. Only binary values stay
    encoded."""

    @pytest.fixture
    def table(self, table: Table) -> Table:
        return Table(table.name, boto3_client.make_client(), sleep=lambda _: None)

    def test_items_of_every_type_survive_a_round_trip(self, table: Table) -> None:
        item: dict[str, Any] = {
            **KEY,
            "text": "ü🎬",
            "number": 1.5,
            "flag": False,
            "nothing": None,
            "bytes": b"\x00\xff" * 50,
            "set": {"a", "b"},
            "map": {"list": [1, "x", {"deep": b"\x01"}]},
        }
        table.write(table.put(item, condition=ABSENT))
        assert table.get(KEY, consistent=True) == item

    def test_parser_agrees_with_botocore(self, table: Table) -> None:
        table.write(table.put({**KEY, "bytes": b"\x00", "n": 1}, condition=ABSENT))
        botocore_client = boto3.client("dynamodb")
        ours = table.client.get_item(TableName=table.name, Key={"pk": {"S": "p"}, "sk": {"S": "s"}})
        theirs = botocore_client.get_item(TableName=table.name, Key={"pk": {"S": "p"}, "sk": {"S": "s"}})
        assert theirs["Item"] == {**ours["Item"], "bytes": {"B": b"\x00"}}
        assert ours["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert ours["ResponseMetadata"]["RequestId"]

    def test_failed_condition_decodes_binary_values(self, table: Table) -> None:
        table.write(table.put({**KEY, "bytes": b"\x00"}, condition=ABSENT))
        for attempt in (table.write, lambda write: table.transact([write])):
            with pytest.raises(ConditionFailed) as raised:
                attempt(table.put(KEY, condition=ABSENT))
            assert raised.value.item == {**KEY, "bytes": b"\x00"}

    def test_modeled_exceptions_still_have_their_classes(self, table: Table) -> None:
        with pytest.raises(table.client.exceptions.ResourceNotFoundException):
            table.client.get_item(TableName="other", Key={"pk": {"S": "p"}, "sk": {"S": "s"}})

    @pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b'{"__type":"InternalServerError"}'])
    def test_malformed_response_raises_unavailable(self, table: Table, body: bytes) -> None:
        class Raw:
            def stream(self, **_: Any) -> Any:
                yield body

        def respond(**_: Any) -> Any:
            raw: Any = Raw()
            return AWSResponse("https://dynamodb", 500, HTTPHeaders(), raw)

        table.client.meta.events.register("before-send.dynamodb", respond)
        try:
            with pytest.raises(ServiceError) as raised:
                table.get(KEY)
        finally:
            table.client.meta.events.unregister("before-send.dynamodb", respond)
        assert raised.value.status in (500, 503)


class TestLostResponse:
    """Conditional writes that DynamoDB applied, but whose response was lost. The client then sends them again."""

    @pytest.fixture
    def flaky(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> Api:
        for name in ("put_item", "update_item"):
            real = getattr(table.client, name)
            # The first response is lost. The second attempt finds the item that the first attempt wrote.
            monkeypatch.setattr(table.client, name, lambda real=real, **request: (real(**request), real(**request))[1])
        return make_api(table)

    def test_create_with_a_lost_response_is_recognised(self, flaky: Api) -> None:
        video = flaky.create()
        assert flaky.get(f"/v1/videos/{video['videoId']}").json == video

    def test_change_with_a_lost_response_is_recognised(self, flaky: Api) -> None:
        video = flaky.create()
        reply = flaky.patch(f"/v1/videos/{video['videoId']}", {"title": "b"}, headers={"If-Match": '"1"'})
        assert (reply.status, reply.json["version"]) == (200, 2)


def test_too_large_item_raises_content_too_large(table: Table) -> None:
    with pytest.raises(ContentTooLarge):
        table.write(table.put({**KEY, "text": "x" * 410_000}, condition=ABSENT))
    with pytest.raises(ContentTooLarge):
        table.transact([table.put({**KEY, "text": "x" * 410_000}, condition=ABSENT)])


def test_store_that_loses_every_race_raises_an_error(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    api = make_api(table)
    path = f"/v1/videos/{api.create()['videoId']}"
    real = VideoStore(table).table.client.update_item

    def overtaken(**request: Any) -> Any:
        other = request | {
            "UpdateExpression": "ADD #version :one",
            "ExpressionAttributeNames": {"#version": "version"},
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        del other["ConditionExpression"]
        real(**other)
        return real(**request)

    monkeypatch.setattr(table.client, "update_item", overtaken)
    reply = api.patch(path, {"title": "b"})
    assert (reply.status, reply.slug) == (409, "write-contention")
    assert reply.headers["retry-after"] == "1"


def test_clients_do_not_retry_because_the_table_does() -> None:
    config: Any = boto3_client.make_client().meta.config
    assert (config.connect_timeout, config.read_timeout) == (1, 2)
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}


class TestBatches:
    def test_batch_read_requests_at_most_a_hundred_keys(self) -> None:
        table, client = _table({"Responses": {"T": []}})
        assert table.batch_get([{"pk": str(n), "sk": "s"} for n in range(101)], consistent=True) == []
        requests = [call["RequestItems"]["T"] for call in client.calls]
        assert [len(request["Keys"]) for request in requests] == [100, 1]
        assert all(request["ConsistentRead"] for request in requests)

    def test_batch_read_requests_no_key_twice(self) -> None:
        table, client = _table({"Responses": {"T": []}})
        table.batch_get([KEY, {"pk": "q", "sk": "s"}, KEY])
        (call,) = client.calls
        assert len(call["RequestItems"]["T"]["Keys"]) == 2

    def test_batch_delete_sends_25_keys_at_a_time(self, table: Table) -> None:
        keys = [{"pk": "p", "sk": f"{n:03d}"} for n in range(60)]
        for key in keys:
            table.write(table.put(key, condition=ABSENT))
        with record_operations(table.client) as operations:
            table.batch_delete(keys)
        assert [operation.name for operation in operations] == ["BatchWriteItem"] * 3
        assert table.batch_get(keys) == []

    def test_unprocessed_deletes_are_retried(self) -> None:
        unprocessed = {"T": [{"DeleteRequest": {"Key": {"pk": {"S": "p"}}}}]}
        table, client = _table({"UnprocessedItems": unprocessed}, {"UnprocessedItems": {}})
        table.batch_delete([KEY, {"pk": "q", "sk": "s"}])
        assert [len(call["RequestItems"]["T"]) for call in client.calls] == [2, 1]

    def test_delete_that_stays_unprocessed_raises_an_error(self) -> None:
        table, client = _table({"UnprocessedItems": {"T": [{}]}})
        with pytest.raises(Unavailable):
            table.batch_delete([KEY])
        assert len(client.calls) == REQUEST_ATTEMPTS


class TestConditionalDelete:
    VERSION_1 = Expression("#version = :version", {"#version": "version"}, {":version": 1})

    def test_delete_removes_an_item_that_meets_the_condition(self, table: Table) -> None:
        table.write(table.put({**KEY, "version": 1}, condition=ABSENT))
        table.write(table.remove(KEY, condition=self.VERSION_1))
        assert table.get(KEY) is None

    def test_refused_delete_reports_the_stored_item(self, table: Table) -> None:
        table.write(table.put({**KEY, "version": 2}, condition=ABSENT))
        with pytest.raises(ConditionFailed) as caught:
            table.write(table.remove(KEY, condition=self.VERSION_1))
        assert caught.value.item == {**KEY, "version": 2}

    def test_failed_check_cancels_the_transaction(self, table: Table) -> None:
        other = {"pk": "other", "sk": "s"}
        with pytest.raises(ConditionFailed) as caught:
            table.transact([table.put(other, condition=ABSENT), table.check(KEY, condition=self.VERSION_1)])
        assert caught.value.position == 1
        assert table.get(other) is None


def test_write_with_an_unknown_outcome_never_raises_not_applied() -> None:
    table, _ = _table(ReadTimeoutError(endpoint_url="x"), _error("ThrottlingException"))
    with pytest.raises(Unavailable) as caught:
        table.write(table.put(KEY, condition=ABSENT))
    assert not isinstance(caught.value, NotApplied)


class Requests:
    """Requests for `gather`. Records the order in which they start and end."""

    def __init__(self, **outcomes: Exception) -> None:
        self.outcomes = outcomes
        self.events: list[str] = []

    def begin(self, name: str) -> Callable[[], str]:
        """Begin a request. Records `+name` at its start and `-name` at its end."""
        self.events.append(f"+{name}")

        def finish() -> str:
            self.events.append(f"-{name}" if has_time() else f"-{name} without another attempt")
            if name in self.outcomes:
                raise self.outcomes[name]
            return name

        return finish

    def gather(self, names: str, **options: Any) -> list[str | Exception]:
        """Call `gather` with one request per letter of `names`."""
        return gather((partial(self.begin, name) for name in names), **options)


class TestGather:
    def test_results_are_in_the_order_of_requests_with_a_limited_number_in_flight(self) -> None:
        requests = Requests()
        assert requests.gather("abcd", at_once=2) == ["a", "b", "c", "d"]
        assert requests.events == ["+a", "+b", "-a", "+c", "-b", "+d", "-c", "-d"]

    def test_no_requests_have_no_results(self) -> None:
        assert Requests().gather("") == []

    def test_request_waits_for_earlier_requests_with_the_same_key(self) -> None:
        requests = Requests()
        assert requests.gather("abcd", in_order=[1, 2, 1, 3]) == ["a", "b", "c", "d"]
        assert requests.events == ["+a", "+b", "-a", "+c", "+d", "-b", "-c", "-d"]

    def test_failed_condition_is_a_result(self) -> None:
        failed = ConditionFailed(None)
        assert Requests(b=failed).gather("abc", at_once=1) == ["a", failed, "c"]

    def test_no_request_is_sent_or_retried_after_an_error(self) -> None:
        failed = Unavailable()
        requests = Requests(b=failed)
        assert requests.gather("abcdef", at_once=3) == ["a", failed, "c", "d"]
        assert requests.events == [
            *("+a", "+b", "+c", "-a", "+d", "-b"),
            *("-c without another attempt", "-d without another attempt"),
        ]

    def test_request_is_not_sent_after_a_failure_with_the_same_key(self) -> None:
        failed = Unavailable()
        requests = Requests(a=failed)
        assert requests.gather("abc", in_order=[1, 2, 1]) == [failed, "b"]
        assert "+c" not in requests.events

    def test_require_all_raises_the_first_error(self) -> None:
        assert require_all(["a", "b"]) == ["a", "b"]
        with pytest.raises(Unavailable):
            require_all(["a", Unavailable(), InternalError("later")])


def test_begin_write_refuses_an_unconditional_write() -> None:
    table, client = _table({})
    with pytest.raises(ValueError, match="needs a condition"):
        table.begin_write(table.put(KEY))
    table.begin_write(table.put(KEY, condition=ABSENT))()
    assert [call["Item"] for call in client.calls] == [{"pk": {"S": "p"}, "sk": {"S": "s"}}]


class TestItemsOfNewerRelease:
    """Items with a newer schema version are refused, because this release cannot interpret them."""

    @pytest.fixture
    def path(self, table: Table, api: Api) -> str:
        """Return the path of a video that a newer release has written."""
        video_id = api.publish()["videoId"]
        newer = Expression.of("SET #schemaVersion = :schemaVersion", schemaVersion=SCHEMA_VERSION + 1)
        table.write(table.update(VIDEO.key(videoId=video_id), newer))
        return f"/v1/videos/{video_id}"

    @pytest.mark.parametrize(
        "read",
        [
            lambda table, key: table.get(key),
            lambda table, key: table.batch_get([key]),
            lambda table, key: table.query(
                index=None, condition=Expression.of("#pk = :pk", pk=key["pk"]), limit=1
            ),
            lambda table, key: table.write(table.put(key, condition=ABSENT)),
            lambda table, key: table.transact([table.put(key, condition=ABSENT)]),
            lambda table, key: table.write(
                table.update(key, Expression.of("SET #a = :a", a=1)), returning="ALL_NEW"
            ),
        ],
        ids=["get", "batch get", "query", "failed condition", "failed transaction", "updated item"],
    )  # fmt: skip
    def test_no_read_or_write_of_the_table_returns_an_item_of_a_newer_release(
        self, table: Table, path: str, read: Callable[[Table, dict[str, str]], object]
    ) -> None:
        with pytest.raises(NewerSchema):
            read(table, VIDEO.key(videoId=path.rpartition("/")[2]))

    def test_requests_get_503_and_change_nothing(self, api: Api, table: Table, path: str) -> None:
        before = table.client.scan(TableName=table.name)["Items"]
        replies = [
            api.get(path),
            api.get(path, query="fields=title"),
            api.get(f"{path}/credits"),
            api.patch(path, {"title": "New"}),
            api.put(f"{path}/rating", {"value": 1}),
            api.delete(path),
            api.post("/v1/videos/batch-get", {"videoIds": [path.rpartition("/")[2]]}),
        ]
        for reply in replies:
            assert (reply.status, reply.json["type"]) == (503, NewerSchema().problem()["type"])
            assert reply.json["detail"] == "A newer release of the service wrote the item. Retry the request."
            assert reply.headers["retry-after"] == "5"
        assert before
        assert table.client.scan(TableName=table.name)["Items"] == before

    def test_items_of_a_newer_release_are_counted_for_the_alarm(
        self, api: Api, path: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        api.get(path)
        assert metrics(capsys) == [{"environment": "test", "NewerItems": 1}]

    def test_write_with_a_failed_condition_is_not_retried(
        self, table: Table, path: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(NewerSchema):
            table.write(table.put(VIDEO.key(videoId=path.rpartition("/")[2]), condition=ABSENT))
        assert metrics(capsys) == [{"environment": "test", "NewerItems": 1}]

    def test_command_on_a_laptop_emits_no_metric(
        self, table: Table, path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ENVIRONMENT")
        with pytest.raises(NewerSchema):
            table.get(VIDEO.key(videoId=path.rpartition("/")[2]))
        assert capsys.readouterr().out == ""

    def test_stream_record_with_an_item_of_a_newer_release_raises_an_error(self) -> None:
        newer = {"pk": "VIDEO#v", "sk": "#META", "schemaVersion": SCHEMA_VERSION + 1}
        record = Record(stream_record(newer, newer))
        with pytest.raises(NewerSchema):
            _ = record.new
        with pytest.raises(NewerSchema):
            _ = record.old
