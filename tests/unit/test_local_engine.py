"""Tests of the features that we add to MiniStack, and of MiniStack's internals that we patch.

They fail if an update of the pinned version changes these internals.
"""

import asyncio
import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.core import lambda_runtime, persistence
from ministack.services import apigateway, dynamodb, lambda_svc, s3, sqs

from local import engine
from local.engine import LOG_SECONDS, SharedCache, StateSaver, expire, patch_ministack
from local.guard import Message
from local.ministack import HEARTBEAT
from local.testbed.harness import Clock
from tests.polling import LIMIT

TABLE = "Films"
NOW = 1_750_000_000
TWENTY_THOUSAND = 20_000


@pytest.fixture(autouse=True)
def ministack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Empty MiniStack's modules in this process, and restore the patched functions after the test."""
    for module, names in {
        apigateway: ("_cors_response_headers", "_validate_jwt_authorizer", "_invoke_lambda_proxy"),
        dynamodb: (
            "_set_item",
            "_remove_item",
            "_items_replaced",
            "_index_item",
            "_query",
            "_trim_stream_records",
            "get_state",
        ),
        lambda_svc: ("_poll_dynamodb_streams",),
        sqs: ("_queue_url_for_account",),
        lambda_runtime: ("_PYTHON_WORKER_SCRIPT", "zipfile"),
        lambda_runtime.Worker: ("_drain_stderr_bounded",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(persistence, "PERSIST_STATE", True)
    monkeypatch.setattr(persistence, "STATE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    _forget()


def _forget() -> None:
    dynamodb.reset()
    sqs.reset()
    apigateway._apis.clear()
    s3._buckets.clear()
    lambda_svc._esms.clear()
    lambda_svc._dynamodb_stream_positions.clear()
    lambda_svc._esm_backoff_until.clear()


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, "Bearer"),
        (
            {"authorization": "Bearer a.b.c"},
            'Bearer scope="" error="invalid_token" error_description="the token is not valid"',
        ),
    ],
    ids=["no token", "invalid token"],
)
def test_request_without_a_valid_token_gets_the_challenge_of_aws(headers: dict[str, str], challenge: str) -> None:
    patch_ministack(None)
    authorizer = {"identitySource": ["$request.header.Authorization"], "jwtConfiguration": {}}
    refused = asyncio.run(apigateway._validate_jwt_authorizer({}, authorizer, headers, {}))
    assert refused == (
        None,
        None,
        (401, {"Content-Type": "application/json", "WWW-Authenticate": challenge}, b'{"message": "Unauthorized"}'),
    )


@pytest.mark.parametrize("bad", [b"\xff", b"\xf0\x9f\x8e", b"\xed\xa0\x80", b"\xe2\x82"])
def test_content_length_shows_that_invalid_bytes_were_replaced(monkeypatch: pytest.MonkeyPatch, bad: bytes) -> None:
    invoked: list[Any] = []

    async def record(*arguments: Any, **_: Any) -> None:
        invoked.extend(arguments[5:7])

    monkeypatch.setattr(apigateway, "_invoke_lambda_proxy", record)
    patch_ministack(None)
    content = b'{"title": "' + bad + b'"}'
    asyncio.run(apigateway._invoke_lambda_proxy({}, "api", "$default", "/v1/videos", "POST", {}, content))
    headers, body = invoked
    assert int(headers["content-length"]) == len(content) < len(body)
    assert body == b'{"title": "' + "\ufffd".encode() * len(bad) + b'"}'


def test_valid_utf_8_body_reaches_the_function_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    invoked: list[Any] = []

    async def record(*arguments: Any, **_: Any) -> None:
        invoked.extend(arguments[5:7])

    monkeypatch.setattr(apigateway, "_invoke_lambda_proxy", record)
    patch_ministack(None)
    content = "Ünïcode \ufffd".encode()
    asyncio.run(apigateway._invoke_lambda_proxy({}, "api", "$default", "/v1/videos", "POST", {}, content))
    assert invoked == [{}, content]


def call(operation: str, **parameters: Any) -> dict[str, Any]:
    """Send a request to MiniStack's DynamoDB and return its response. Asserts status 200."""
    headers = {"x-amz-target": f"DynamoDB_20120810.{operation}"}
    status, _, body = asyncio.run(dynamodb.handle_request("POST", "/", headers, json.dumps(parameters).encode(), {}))
    assert status == 200, body
    content: dict[str, Any] = json.loads(body)
    return content


SCHEMA: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "owner")],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "Owners",
            "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}


def create_table() -> None:
    """Create a table with a stream and a global secondary index."""
    call("CreateTable", TableName=TABLE, **SCHEMA)


def key(name: str) -> dict[str, Any]:
    """Return the key of an item."""
    return {"pk": {"S": name}, "sk": {"S": "#META"}}


def video_item(name: str, **more: Any) -> dict[str, Any]:
    """Return an item of alice's with the given attributes."""
    return key(name) | {"owner": {"S": "alice"}} | more


def put(name: str, **more: Any) -> None:
    """Write an item of alice's."""
    call("PutItem", TableName=TABLE, Item=video_item(name, **more))


def names() -> set[str]:
    """Return the partition keys of alice's items from the index `Owners`, which is computed from the table's items."""
    page = call(
        "Query",
        TableName=TABLE,
        IndexName="Owners",
        KeyConditionExpression="#owner = :alice",
        ExpressionAttributeNames={"#owner": "owner"},
        ExpressionAttributeValues={":alice": {"S": "alice"}},
    )
    return {item["pk"]["S"] for item in page["Items"]}


def records() -> list[dict[str, Any]]:
    """Return the records of the table's stream, oldest first."""
    return list(dynamodb.stream_live_records(TABLE))


class RestartableMiniStack:
    """Consecutive runs of MiniStack on the same folder. Each run ends as if by `kill -9`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unpatched = {name: getattr(dynamodb, name) for name in ("_set_item", "_remove_item", "_items_replaced")}
        self._get_state = dynamodb.get_state

    def start(self) -> StateSaver:
        """End the previous run and start the next run from the files on disk."""
        mappings = dict(lambda_svc._esms._data)  # a deployment made MiniStack save them
        _forget()
        lambda_svc._esms._data.update(mappings)
        for name, function in self._unpatched.items():
            setattr(dynamodb, name, function)
        dynamodb.get_state = self._get_state
        saver = StateSaver(self.folder)
        patch_ministack(saver)
        dynamodb.load_persisted_state(persistence.load_state("dynamodb"))
        sqs.load_persisted_state(persistence.load_state("sqs"))
        saver.restore()
        saver.has_full_save = True
        return saver


@pytest.fixture
def ministack_runs(tmp_path: Path) -> RestartableMiniStack:
    """Return a MiniStack that can be restarted, with an empty folder."""
    return RestartableMiniStack(tmp_path)


def consume_stream(*, until: int) -> None:
    """Map a function to the table's stream, as if it had read the first `until` records."""
    stream = dynamodb._tables[TABLE]["LatestStreamArn"]
    lambda_svc._esms["reader"] = {"UUID": "reader", "EventSourceArn": stream, "FunctionName": "router"}
    lambda_svc._dynamodb_stream_positions["reader"] = until


def test_queue_is_found_by_name_after_the_port_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that a queue keeps its name. MiniStack addresses the queue of a function by name, but stores queues by
    URL."""
    patch_ministack(None)
    queue_url = sqs._act_create_queue({"QueueName": "probe"}, "")["QueueUrl"]
    monkeypatch.setattr(sqs, "DEFAULT_PORT", "4999")
    assert sqs._queue_url("probe") == queue_url
    assert ":4999/" in sqs._queue_url("robe")


class TestSavedState:
    def test_saved_state_survives_a_kill_and_unsaved_state_does_not(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        create_table()
        put("kept")
        put("removed")
        call("DeleteItem", TableName=TABLE, Key=key("removed"))
        asyncio.run(saver.save())
        put("of the last second")
        assert (ministack_runs.folder / HEARTBEAT).exists()
        ministack_runs.start()
        assert names() == {"kept"}

    @pytest.mark.parametrize(
        ("operation", "parameters"),
        [
            ("UpdateItem", {"TableName": TABLE, "Key": key("a"), "UpdateExpression": "REMOVE #owner"}),
            ("BatchWriteItem", {"RequestItems": {TABLE: [{"DeleteRequest": {"Key": key("a")}}]}}),
            ("TransactWriteItems", {"TransactItems": [{"Delete": {"TableName": TABLE, "Key": key("a")}}]}),
            ("ExecuteStatement", {"Statement": f"DELETE FROM {TABLE} WHERE pk = 'a' AND sk = '#META'"}),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_every_kind_of_write_is_saved(
        self, ministack_runs: RestartableMiniStack, operation: str, parameters: dict[str, Any]
    ) -> None:
        saver = ministack_runs.start()
        create_table()
        put("a")
        put("b")
        asyncio.run(saver.save())
        if "UpdateExpression" in parameters:
            parameters = parameters | {"ExpressionAttributeNames": {"#owner": "owner"}}
        call(operation, **parameters)
        asyncio.run(saver.save())
        ministack_runs.start()
        assert names() == {"b"}

    def test_recreated_table_has_no_items_of_the_deleted_table(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        create_table()
        put("old")
        asyncio.run(saver.save())
        call("DeleteTable", TableName=TABLE)
        create_table()
        asyncio.run(saver.save())
        ministack_runs.start()
        assert names() == set()

    @pytest.mark.slow
    def test_twenty_thousand_items_are_restored_and_each_is_written_once(
        self, ministack_runs: RestartableMiniStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        saver = ministack_runs.start()
        create_table()
        every = {f"film {number}" for number in range(TWENTY_THOUSAND)}
        for name in every:
            dynamodb._set_item(dynamodb._tables[TABLE], name, "#META", video_item(name))
        asyncio.run(saver.save())
        written: list[int] = []
        monkeypatch.setattr(engine, "_row", _counted(written, engine._row))
        put("one more")
        asyncio.run(saver.save())
        assert len(written) == 1
        # The file that MiniStack itself writes does not contain the items.
        assert (ministack_runs.folder / "dynamodb.json").stat().st_size < TWENTY_THOUSAND
        ministack_runs.start()
        assert names() == every | {"one more"}
        assert call("DescribeTable", TableName=TABLE)["Table"]["ItemCount"] == TWENTY_THOUSAND + 1

    def test_interrupted_deployment_leaves_no_new_table_or_queue(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        create_table()
        put("before")
        asyncio.run(saver.save())
        saver = ministack_runs.start()
        saver.has_full_save = False  # a deployment is in progress
        put("meanwhile")
        call("CreateTable", **(SCHEMA | {"TableName": "New"}))
        sqs._queues["http://queue"] = {"messages": [], "attributes": {}, "name": "queue"}
        asyncio.run(saver.save())
        ministack_runs.start()
        assert names() == {"before", "meanwhile"}
        assert call("ListTables")["TableNames"] == [TABLE]
        assert len(sqs._queues) == 0

    def test_queued_message_is_restored(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        sqs._queues["http://queue"] = {"messages": [{"body": "a film has arrived"}], "attributes": {}, "name": "queue"}
        asyncio.run(saver.save())
        ministack_runs.start()
        assert [message["body"] for message in sqs._queues["http://queue"]["messages"]] == ["a film has arrived"]

    def test_stream_consumer_continues_at_its_first_unread_record(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        create_table()
        put("read")
        consume_stream(until=0)
        asyncio.run(saver.save())
        put("unread")
        consume_stream(until=1)
        asyncio.run(saver.save())
        ministack_runs.start()
        position = lambda_svc._dynamodb_stream_positions["reader"]
        (record,) = dynamodb.stream_records_since(TABLE, position, 100)
        assert record["dynamodb"]["NewImage"]["pk"] == {"S": "unread"}
        put("new")
        assert len(dynamodb.stream_records_since(TABLE, position, 100)) == 2

    def test_failed_save_is_repeated_by_the_next_save(
        self, ministack_runs: RestartableMiniStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        saver = ministack_runs.start()
        create_table()
        put("a")
        with monkeypatch.context() as patched:
            patched.setattr(StateSaver, "_write", _fails)
            with pytest.raises(OSError, match="full"):
                asyncio.run(saver.save())
        asyncio.run(saver.save())
        ministack_runs.start()
        assert names() == {"a"}

    def test_orderly_end_removes_the_heartbeat_file(self, ministack_runs: RestartableMiniStack) -> None:
        saver = ministack_runs.start()
        asyncio.run(saver.save())
        saver.end()
        assert not (ministack_runs.folder / HEARTBEAT).exists()
        asyncio.run(saver.save())  # a save that was already in progress


def _counted(counts: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        counts.append(1)
        return function(*arguments)

    return call


def _fails(*_: Any) -> None:
    raise OSError("the disk is full")


class TestStreams:
    """Two functions that consume one stream."""

    @pytest.fixture
    def consumers(self, monkeypatch: pytest.MonkeyPatch) -> "_Consumers":
        """Return two consumers, and a stream with three records."""
        patch_ministack(None)
        create_table()
        consumers = _Consumers()
        monkeypatch.setattr(lambda_svc, "_get_func_record_for_qualifier", lambda name, _: ({"name": name}, {}))
        monkeypatch.setattr(lambda_svc, "_execute_function", consumers.call)
        monkeypatch.setattr(lambda_svc, "_dispatch_esm_batch", consumers.dispatch)
        stream = dynamodb._tables[TABLE]["LatestStreamArn"]
        for name in ("router", "audit"):
            mapping = {"UUID": name, "FunctionName": name, "EventSourceArn": stream, "BatchSize": 2}
            lambda_svc._esms[name] = mapping | {"StartingPosition": "TRIM_HORIZON"}
        for key in ("a", "b", "c"):
            put(key)
        return consumers

    def test_every_consumer_receives_every_record_in_order(self, consumers: "_Consumers") -> None:
        assert consumers.begun() == {"router", "audit"}
        for name in ("router", "audit"):
            consumers.run(name)
            assert consumers.calls.pop(name) == [["a", "b"], ["c"]]
            assert not consumers.calls

    def test_busy_consumer_is_not_started_again_and_does_not_delay_others(
        self, consumers: "_Consumers", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(lambda_svc._esm_inflight, "audit", 1)
        assert consumers.begun() == {"router"}
        consumers.run("router")
        put("d")
        assert consumers.begun() == {"router"}

    def test_consumer_without_new_records_is_not_started(self, consumers: "_Consumers") -> None:
        consumers.begun()
        consumers.run("router")
        assert consumers.begun() == {"audit"}

    @pytest.mark.parametrize(
        "failure", [{"error": True}, {"body": {"batchItemFailures": [{"itemIdentifier": "2"}]}}], ids=["all", "partial"]
    )
    def test_failed_consumer_receives_the_same_records_after_a_backoff(
        self, consumers: "_Consumers", failure: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lambda_svc, "_ESM_BACKOFF_SECONDS", 10**6)
        consumers.begun()
        consumers.failing["router"] = failure
        consumers.run("router")
        assert consumers.begun() == {"audit"}
        lambda_svc._esm_backoff_until.clear()
        assert consumers.begun() == {"router", "audit"}
        consumers.failing.clear()
        consumers.run("router")
        assert consumers.calls["router"] == [["a", "b"], ["a", "b"], ["c"]]


class _Consumers:
    """Consumers that record their batches. A test decides when each started consumer runs."""

    def __init__(self) -> None:
        self.calls: dict[str, list[list[str]]] = {}
        self.failing: dict[str, dict[str, Any]] = {}
        """MiniStack's results of failed calls, by name of the function."""
        self._tasks: dict[str, Callable[[], None]] = {}

    def call(self, function: dict[str, str], event: dict[str, Any]) -> dict[str, Any]:
        """Record a batch, and return the function's result. A function that is not in `failing` succeeds."""
        batch = [record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]]
        self.calls.setdefault(function["name"], []).append(batch)
        return self.failing.get(function["name"], {"body": {"batchItemFailures": []}})

    def dispatch(self, name: str, function: Callable[..., None], *arguments: Any) -> None:
        """Store the call that MiniStack would run in a thread."""
        self._tasks[name] = partial(function, *arguments)

    def begun(self) -> set[str]:
        """Return the names of the functions that MiniStack's polling loop starts now."""
        self._tasks.clear()
        assert not lambda_svc._poll_dynamodb_streams()
        return set(self._tasks)

    def run(self, name: str) -> None:
        """Run a started consumer until it has read all records."""
        self._tasks[name]()


class TestExpiry:
    @pytest.fixture(autouse=True)
    def table(self) -> None:
        """Create a table with TTL on `purgeAt`."""
        patch_ministack(None)
        create_table()
        specification = {"Enabled": True, "AttributeName": "purgeAt"}
        call("UpdateTimeToLive", TableName=TABLE, TimeToLiveSpecification=specification)

    def test_expired_item_is_removed_with_dynamodb_as_the_stream_identity(self) -> None:
        put("over", purgeAt={"N": str(NOW)})
        expire(NOW)
        removal = records()[-1]
        assert names() == set()
        assert removal["eventName"] == "REMOVE"
        assert removal["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        assert removal["dynamodb"]["OldImage"] == video_item("over", purgeAt={"N": str(NOW)})

    @pytest.mark.parametrize(
        "more",
        [
            pytest.param({"purgeAt": {"N": str(NOW + 1)}}, id="not yet expired"),
            pytest.param({"purgeAt": {"N": str(NOW - 6 * 366 * 86_400)}}, id="expired more than five years ago"),
            pytest.param({"purgeAt": {"S": str(NOW)}}, id="text"),
            pytest.param({}, id="no time"),
        ],
    )
    def test_item_that_is_not_expired_is_kept(self, more: dict[str, Any]) -> None:
        put("a", **more)
        expire(NOW)
        assert names() == {"a"}

    def test_item_deleted_by_a_client_has_no_stream_identity(self) -> None:
        put("over", purgeAt={"N": str(NOW)})
        expire(NOW)
        put("a")
        call("DeleteItem", TableName=TABLE, Key=key("a"))
        assert "userIdentity" not in records()[-1]

    def test_no_item_expires_without_ttl(self) -> None:
        specification = {"Enabled": False, "AttributeName": "purgeAt"}
        call("UpdateTimeToLive", TableName=TABLE, TimeToLiveSpecification=specification)
        put("over", purgeAt={"N": str(NOW)})
        expire(NOW)
        assert names() == {"over"}

    def test_ministacks_own_reaper_removes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        put("over", purgeAt={"N": str(NOW)})
        (reaper,) = (thread for thread in threading.enumerate() if thread.name == engine.MINISTACKS_REAPER)
        clock = _OneRoundClock()
        monkeypatch.setattr(dynamodb, "time", clock)

        def reap() -> None:
            with suppress(SystemExit):
                dynamodb._ttl_reaper()

        clock.reaper = thread = threading.Thread(target=reap, name=reaper.name)
        thread.start()
        thread.join()
        assert clock.naps == 2
        assert names() == {"over"}


class _OneRoundClock:
    """A clock that ends a test's reaper after one round. MiniStack's own reaper, in another thread, keeps its pauses."""

    def __init__(self) -> None:
        self.naps = 0
        self.reaper: threading.Thread | None = None

    def time(self) -> float:
        """Return a time at which the items have expired."""
        return NOW + 1

    def sleep(self, seconds: float) -> None:
        """Return immediately. The second call raises SystemExit, which ends the reaper."""
        if threading.current_thread() is not self.reaper:
            threading.Event().wait(seconds)
            return
        self.naps += 1
        if self.naps == 2:
            raise SystemExit


@pytest.fixture
def start() -> Iterator[Callable[[str], Any]]:
    """Return a function that starts a worker with 256 MB for the source of a module, as MiniStack does."""
    patch_ministack(None)
    workers = []

    def start(module: str) -> Any:
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr(zipfile.ZipInfo("index.py"), module)
            archive.writestr(zipfile.ZipInfo("package/__init__.py"), "")
        config = {
            "FunctionName": "hungry",
            "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:hungry",
            "Handler": "index.handler",
            "Runtime": "python3.13",
            "MemorySize": 256,
            "Timeout": LIMIT,
        }
        workers.append(lambda_runtime.Worker("hungry", config, code.getvalue()))
        return workers[-1]

    yield start
    lambda_runtime.kill_workers(workers)
    for worker in workers:
        if worker._stderr_thread:
            worker._stderr_thread.join(LIMIT)  # closes the pipe; otherwise another test would emit the warning about it


# MiniStack leaves the pipes of a worker process to the garbage collector, which warns about them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestWorkers:
    ALLOCATING_HANDLER = "def handler(event, context):\n    return len(bytearray(event['megabytes'] << 20))\n"
    MODULE_LISTING_HANDLER = """
import os, sys, package
def handler(event, context):
    return {"file": os.path.realpath(package.__file__), "modules": sorted(sys.modules)}
"""

    @pytest.mark.skipif("sys.platform != 'linux'", reason="only Linux counts it")
    def test_memory_of_a_function_is_limited_to_its_setting(self, start: Callable[[str], Any]) -> None:
        worker = start(self.ALLOCATING_HANDLER)
        assert worker.invoke({"megabytes": 100}, "1")["result"] == 100 << 20
        refused = worker.invoke({"megabytes": 300}, "2")
        assert refused["status"] == "error"
        assert "MemoryError" in refused["trace"]

    def test_workers_share_one_unpacked_copy_of_their_package(
        self, start: Callable[[str], Any], tmp_path: Path
    ) -> None:
        first, second, other = (
            start(self.MODULE_LISTING_HANDLER),
            start(self.MODULE_LISTING_HANDLER),
            start(self.MODULE_LISTING_HANDLER + "#"),
        )
        files = [Path(worker.invoke({}, "1")["result"]["file"]) for worker in (first, second, other)]
        assert files[0] == files[1] != files[2]
        assert files[0].is_relative_to(tmp_path)
        lambda_runtime.kill_workers([first])
        assert files[0].exists()  # the second worker may still import modules from it

    def test_worker_does_not_import_botocore(self, start: Callable[[str], Any]) -> None:
        assert "botocore" not in start(self.MODULE_LISTING_HANDLER).invoke({}, "1")["result"]["modules"]


def test_response_does_not_wait_for_log_lines_of_a_silent_function(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(lambda_runtime, "time", SimpleNamespace(time=clock, sleep=clock.advance))
    patch_ministack(None)
    worker = lambda_runtime.Worker("silent", {}, b"")
    assert worker._drain_stderr_bounded() == ""
    assert clock.now - NOW <= LOG_SECONDS + 0.002
    worker._stderr_queue.put("a line")
    assert worker._drain_stderr_bounded() == "a line"


async def _nothing() -> Message:
    """Return the end of a request without a body."""
    return {"type": "http.request", "body": b""}


class TestSharedCache:
    """Cache in front of an application that counts its calls."""

    IMMUTABLE = b"public, max-age=31536000, immutable"

    @staticmethod
    def responses(
        cache_control: bytes, status: int = 200, *requests: dict[str, str], method: str = "GET"
    ) -> list[bytes]:
        """Return the body of the response to each request. A body contains the number of the call that produced it.

        `requests` are header fields. The pseudo-header `path` replaces the path.
        """
        calls: list[int] = []

        async def inner(_scope: Message, _receive: Any, send: Any) -> None:
            calls.append(1)
            await send(
                {"type": "http.response.start", "status": status, "headers": [(b"Cache-Control", cache_control)]}
            )
            await send({"type": "http.response.body", "body": b"call ", "more_body": True})
            await send({"type": "http.response.body", "body": str(len(calls)).encode()})

        cache = SharedCache(inner)

        async def content(headers: dict[str, str]) -> bytes:
            path = headers.pop("path", "/console/a.js")
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            header_pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
            scope = {
                "type": "http",
                "method": method,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": header_pairs,
            }
            await cache(scope, _nothing, send)
            assert [message["type"] for message in sent] == ["http.response.start", *["http.response.body"] * 2]
            return b"".join(message.get("body", b"") for message in sent)

        return [asyncio.run(content(dict(headers))) for headers in requests]

    def test_immutable_public_response_is_served_from_the_cache(self) -> None:
        assert self.responses(self.IMMUTABLE, 200, {}, {}) == [b"call 1", b"call 1"]

    @pytest.mark.parametrize(
        "header", ["path", "accept-encoding", "origin", "range", "if-none-match", "if-modified-since"]
    )
    def test_request_with_other_headers_is_not_served_from_the_cache(self, header: str) -> None:
        assert self.responses(self.IMMUTABLE, 200, {}, {header: "x"}) == [b"call 1", b"call 2"]

    @pytest.mark.parametrize("header", ["range", "if-none-match", "if-modified-since"])
    def test_response_to_a_conditional_request_is_not_cached(self, header: str) -> None:
        assert self.responses(self.IMMUTABLE, 200, {header: "x"}, {header: "x"}) == [b"call 1", b"call 2"]

    @pytest.mark.parametrize(
        ("cache_control", "status", "method"),
        [
            (b"no-cache", 200, "GET"),
            (b"private, immutable", 200, "GET"),
            (b"public, max-age=60", 200, "GET"),
            (IMMUTABLE, 404, "GET"),
            (IMMUTABLE, 200, "HEAD"),
        ],
    )
    def test_any_other_response_is_not_cached(self, cache_control: bytes, status: int, method: str) -> None:
        assert self.responses(cache_control, status, {}, {}, method=method) == [b"call 1", b"call 2"]

    def test_full_cache_is_emptied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "MAX_RESPONSES", 1)
        other = {"path": "/b"}
        assert self.responses(self.IMMUTABLE, 200, {}, other, other, {}) == [b"call 1", b"call 2", b"call 2", b"call 3"]
