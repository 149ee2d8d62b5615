"""Runs MiniStack in this process, extended by durable storage.

The pinned version of MiniStack saves its state only when it stops, which is slow. Its TTL deletes items, but writes no
stream records. It gives functions unlimited memory, and unpacks their code for every worker. MiniStack has no settings
for this behaviour, so this module and `local/queries.py` patch MiniStack's modules. `tests/unit/test_local_engine.py`
fails if the structure of these modules changes.
"""

import asyncio
import json
import logging
import os
import re
import socket
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partialmethod
from hashlib import sha256
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import hypercorn.asyncio
from ministack import app as ministack
from ministack.core import lambda_runtime, persistence, responses
from ministack.services import apigateway, dynamodb, lambda_svc, sqs, sts

from local import queries
from local.aws import ACCOUNT
from local.child import end_with_parent
from local.guard import App, Guard, Message, Ports, Receive, Send
from local.guide import Guide
from local.journal import ItemRow, Journal, ReaderRow, RecordRow
from local.ministack import HEARTBEAT, SAVE_PATH, SOCKETS

LOGGER = logging.getLogger("local.engine")

JOURNAL = "items.sqlite"

SAVE_SECONDS = 1.0
EXPIRE_SECONDS = 5.0
TELL_SECONDS = 0.5
"""Minimum seconds between two lines that report progress."""
SHARE = 10
"""Minimum pause after a save or a TTL scan, as a multiple of the duration of that save or scan."""
KEPT_AS_IT_CHANGES = {"dynamodb": dynamodb, "sqs": sqs}
"""Modules of MiniStack by name of the service, for the services whose state is saved soon after each change.

The state of all other services changes only during a deploy, or consists of logs and metrics.
"""

TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""User identity in the stream records of TTL deletions.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html
"""
FIVE_YEARS = 5 * 365 * 86_400
MINISTACKS_REAPER = "dynamodb-ttl-reaper"
"""Name of MiniStack's thread that deletes expired items, but writes no stream records."""

LOG_SECONDS = 0.005
"""Maximum seconds to wait for log lines after a function has returned.

MiniStack would wait 0.05 seconds. That is most of the duration of a request. Lines that arrive later are logged with
the next response.
"""

VARY = (b"accept-encoding", b"origin")
"""Names of the request headers that are part of the cache key."""
NOT_CACHED = (b"if-none-match", b"if-modified-since", b"range")
"""Names of the request headers that bypass the cache."""
MAX_RESPONSES = 500
"""Maximum number of cached responses. A full cache is emptied, because each change of the console renames its files."""

LIMIT_MEMORY = """
import os as _os, resource as _resource
_bytes = int(_os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]) << 20
_resource.setrlimit(_resource.RLIMIT_DATA, (_bytes, _bytes))
"""
"""Python code that each worker runs first. It limits the worker's memory.

On Linux, RLIMIT_DATA counts writable memory, not memory that is only mapped.
"""

COUNT_NO_CALLS = """
def _ms_install_invoke_depth():
    pass
"""
"""Python code that replaces MiniStack's counter of nested invocations. That counter imports botocore in each worker.

The replacement counts nothing, because functions of the service invoke no other functions.
"""

POLL_STREAMS: FunctionType = lambda_svc._poll_dynamodb_streams
"""MiniStack's original function that polls the streams. `patch_ministack` replaces the function in MiniStack's
module."""


@dataclass
class Snapshot:
    """Consistent snapshot of the data that changed since the previous snapshot."""

    touched: dict[tuple[str, str, str], Any]
    """MiniStack's table object for each item that was written or deleted. A key consists of the table's id, and the
    item's partition key and sort key."""
    emptied: dict[str, Any]
    """MiniStack's table objects by table id, for the tables whose items were all replaced."""
    readers: list[ReaderRow] = field(default_factory=list)
    records: list[RecordRow] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """Position after the last record of each stream, by ARN of the stream."""
    items: list[ItemRow] = field(default_factory=list)
    states: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """State of each changed service, by name of the service. Each value contains the state twice: as JSON, which
    is compared with the last save, and as MiniStack's object, which is saved."""


class StateSaver:
    """Writer of changed items, stream records and queues to disk, shortly after the changes.

    All methods except `_write` run on the event loop, between two requests. A snapshot therefore never contains half a
    transaction.
    """

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder / JOURNAL)
        self._heartbeat = folder / HEARTBEAT
        self._touched: dict[tuple[str, str, str], Any] = {}
        self._emptied: dict[str, Any] = {}
        self._ends: dict[str, int] = {}
        self._saved: dict[str, str] = {}
        self._saving = asyncio.Lock()
        self._ended = False
        self.has_full_save = False
        """Whether MiniStack has saved its whole state since the start.

        Until then, during the first deploy, only items are saved. A saved table or queue would block the next deploy if
        the CloudFormation stack is not saved.
        """

    def touch(self, table: Any, pk: str, sk: str) -> None:
        """Record that an item has changed. The next save writes it."""
        self._touched[table["TableId"], pk, sk] = table

    def empty(self, table: Any) -> None:
        """Record that all items of a table were replaced. The next save writes them."""
        self._emptied[table["TableId"]] = table

    def restore(self) -> None:
        """Restore the saved items, stream records and reader positions. MiniStack must have loaded its own state before."""
        tables = {table["TableId"]: table for table in dynamodb._tables.all_values()}
        self._journal.keep_only(tables)
        for table_id, table in tables.items():
            for pk, sk, item in self._journal.items(table_id):
                table["items"][pk][sk] = json.loads(item)
            dynamodb._update_counts(table)
        self._restore_streams()
        self._heartbeat.touch()

    def _restore_streams(self) -> None:
        kept = {reader: position for reader, _, position in self._journal.readers()}
        positions = lambda_svc._dynamodb_stream_positions
        positions.clear()  # MiniStack's own positions refer to records that it does not save
        for scope, table in dynamodb._tables.all_items():
            stream = table.get("LatestStreamArn")
            readers = {reader: kept[reader[-1]] for reader in _readers(stream) if reader[-1] in kept}
            if not readers:
                continue
            records = self._journal.records(stream)
            start = min([*readers.values(), *(position for position, _ in records[:1])])
            # Restore the records last: readers treat a stream without records as fully read.
            dynamodb._stream_trimmed.set_scoped(*scope, start)
            for reader, position in readers.items():
                positions.set_scoped(*reader, position)
            dynamodb._stream_records.set_scoped(*scope, [json.loads(record) for _, record in records])
            self._ends[stream] = start + len(records)
        self._journal.advance(_positions())

    async def save(self) -> None:
        """Write all changes to disk."""
        async with self._saving:
            if self._ended:
                return
            now = time.time()
            snapshot = self._snapshot()
            try:
                await asyncio.to_thread(self._write, snapshot)
            except BaseException:  # also on cancellation: the next save includes these changes
                self._touched = snapshot.touched | self._touched
                self._emptied = snapshot.emptied | self._emptied
                raise
            self._ends |= snapshot.ends
            self._saved |= {name: text for name, (text, _) in snapshot.states.items()}
            os.utime(self._heartbeat, (now, now))

    def _snapshot(self) -> Snapshot:
        """Return the changes since the last snapshot. Other threads may read streams and queues at the same time.

        The order of the copies prevents data loss. Reader positions are copied first, then the queues. Therefore the
        queues contain the messages for all records before these positions. Items are copied last. Therefore they
        include the writes of workers for all messages that workers had already received from the queues.
        """
        taken = Snapshot(self._touched, self._emptied)
        self._touched, self._emptied = {}, {}
        taken.readers = _positions() if self.has_full_save else self._journal.readers()
        with sqs._queues_lock:
            states = {name: service.get_state() for name, service in KEPT_AS_IT_CHANGES.items() if self.has_full_save}
        for name, state in states.items():
            text = json.dumps(state, default=persistence._json_default)
            if text != self._saved.get(name):
                taken.states[name] = text, state
        for scope, records in dynamodb._stream_records.all_items():
            stream = dynamodb._tables.get_scoped(*scope, {}).get("LatestStreamArn")
            if next(_readers(stream), None):
                start = dynamodb._stream_trimmed.get_scoped(*scope, 0)
                known = max(self._ends.get(stream, start), start)
                fresh = records[known - start :]
                taken.records += [(stream, known + n, json.dumps(record)) for n, record in enumerate(fresh)]
                taken.ends[stream] = known + len(fresh)
        for table_id, table in taken.emptied.items():
            taken.items += [_row(table_id, table, pk, sk) for pk, items in table["items"].items() for sk in items]
        taken.items += [_row(table_id, table, pk, sk) for (table_id, pk, sk), table in taken.touched.items()]
        return taken

    def _write(self, snapshot: Snapshot) -> None:
        if snapshot.items or snapshot.records or snapshot.emptied:
            self._journal.write(snapshot.items, snapshot.records, snapshot.emptied)
        for name, (_, state) in snapshot.states.items():
            persistence.save_state(name, state)
        # Positions are written last. After a crash before this line, records are read twice, and no record is lost.
        if snapshot.readers != self._journal.readers():
            self._journal.advance(snapshot.readers)

    def end(self) -> None:
        """Stop saving changes, and record a clean stop by deleting the heartbeat file."""
        self._ended = True
        self._journal.close()
        self._heartbeat.unlink(missing_ok=True)


def _readers(stream: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield account, region and id of each event source mapping of a stream."""
    return (scope for scope, mapping in lambda_svc._esms.all_items() if mapping.get("EventSourceArn") == stream)


def _positions() -> list[ReaderRow]:
    """Return the positions of the stream readers."""
    positions = lambda_svc._dynamodb_stream_positions.all_items()
    mappings = dict(lambda_svc._esms.all_items())
    return [(scope[-1], mappings[scope]["EventSourceArn"], at) for scope, at in positions if scope in mappings]


def _row(table_id: str, table: Any, pk: str, sk: str) -> ItemRow:
    item = table["items"].get(pk, {}).get(sk)
    return table_id, pk, sk, None if item is None else json.dumps(item)


class SharedCache:
    """ASGI application that caches the public, immutable responses of another application, `inner`.

    Each new browser session loads 40 files of the console, and MiniStack needs 2.5 ms of CPU time per file.
    """

    def __init__(self, inner: App) -> None:
        self._inner = inner
        self._kept: dict[tuple[bytes, ...], list[Message]] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Respond from the cache, or forward the request."""
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or scope["method"] != "GET" or any(name in headers for name in NOT_CACHED):
            await self._inner(scope, receive, send)
            return
        # The key includes all request headers by which cacheable responses vary.
        key = (scope["raw_path"], scope["query_string"], *(headers.get(name, b"") for name in VARY))
        if key not in self._kept:
            await self._inner(scope, receive, self._caching(key, send))
            return
        for message in self._kept[key]:
            await send(message)

    def _caching(self, key: tuple[bytes, ...], send: Send) -> Send:
        """Return a `send` function that also caches the response, if the response is public and immutable."""
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body") and _is_immutable(sent[0]):
                if len(self._kept) >= MAX_RESPONSES:
                    self._kept.clear()
                self._kept[key] = sent
            await send(message)

        return keep


def _is_immutable(start: Message) -> bool:
    """Return whether a response has the status 200, and its Cache-Control allows shared caches to store it permanently
    (`public, immutable`)."""
    headers = {name.lower(): value for name, value in start["headers"]}
    return start["status"] == 200 and {b"public", b"immutable"} <= {*headers.get(b"cache-control", b"").split(b", ")}


class Engine:
    """ASGI application that wraps MiniStack, saves its tables, and deletes expired items as DynamoDB does."""

    def __init__(self, inner: App, keeper: StateSaver | None) -> None:
        self._inner = inner
        self._keeper = keeper
        self._tasks: list[asyncio.Task[None]] = []
        self._is_saved = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle a request, or the start and stop of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", SAVE_PATH):
            await self._save_everything(send)
        else:
            await self._inner(scope, receive, send)

    async def _lifespan(self, scope: Message, receive: Receive, send: Send) -> None:
        async def receive_and_save() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown" and self._keeper:
                try:
                    await self._keeper.save()
                except Exception:  # log and continue, because MiniStack must still save its own state
                    LOGGER.exception("the last changes could not be saved")
                else:
                    self._is_saved = True
            return message

        async def send_and_start(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                if self._keeper:
                    self._keeper.restore()
                    self._tasks.append(asyncio.create_task(_repeat(self._keeper.save, SAVE_SECONDS)))
                self._tasks.append(asyncio.create_task(_repeat(_expire, EXPIRE_SECONDS)))
            await send(message)
            if message["type"] == "lifespan.shutdown.complete" and self._keeper and self._is_saved:
                self._keeper.end()
                os._exit(0)  # all data is on disk; MiniStack would wait for threads that wait for messages

        await self._inner(scope, receive_and_save, send_and_start)

    async def _save_everything(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        if self._keeper:
            await self._keeper.save()
            services = ministack._build_persistence_save_dict()
            reported = time.monotonic()
            for number, (name, get_state) in enumerate(services.items(), start=1):
                if time.monotonic() - reported > TELL_SECONDS:
                    line = f"{number} of {len(services)}: {name}\n"
                    await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
                    reported = time.monotonic()
                persistence.save_all({name: get_state})
            self._keeper.has_full_save = True
        await send({"type": "http.response.body", "body": b""})


async def _repeat(action: Callable[[], Awaitable[object]], seconds: float) -> None:
    while True:
        started = time.monotonic()
        try:
            await action()
        except Exception:  # retried, because any error, such as a full disk, may be transient
            LOGGER.exception("background task failed, and is retried")
        await asyncio.sleep(max(seconds, SHARE * (time.monotonic() - started)))


async def _expire() -> None:
    expire(time.time())


def expire(now: float) -> None:
    """Delete all items that have expired at `now` (epoch seconds), and record the deletions in the streams."""
    for (account, region, name), setting in dynamodb._ttl_settings.all_items():
        table = dynamodb._tables.get_scoped(account, region, name)
        if table is None or setting["TimeToLiveStatus"] != "ENABLED":
            continue
        attribute = setting["AttributeName"]
        expired = [
            (pk, sk)
            for pk, items in table["items"].items()
            for sk, item in items.items()
            # As in DynamoDB, a value that is not a number, or is more than five years past, does not expire.
            if attribute in item and "N" in item[attribute] and now - FIVE_YEARS < float(item[attribute]["N"]) <= now
        ]
        with _as_dynamodb(account, region):
            for pk, sk in expired:
                removed = dynamodb._remove_item(table, pk, sk)
                dynamodb._emit_stream_event(name, "REMOVE", removed, None)


@contextmanager
def _as_dynamodb(account: str, region: str) -> Iterator[None]:
    """Record changes within the block as TTL deletions in the streams of an account and region."""
    build = dynamodb._build_change_record
    tokens = responses._request_account_id.set(account), responses._request_region.set(region)
    dynamodb._build_change_record = lambda *change: build(*change) | {"userIdentity": TTL_IDENTITY}
    try:
        yield
    finally:
        dynamodb._build_change_record = build
        responses._request_account_id.reset(tokens[0])
        responses._request_region.reset(tokens[1])


def read_streams() -> bool:
    """Start a thread for each stream consumer that has unread records. The thread reads to the end of the stream.

    This function replaces MiniStack's function, which serves all consumers and all queues in a single thread. With that
    function, uploads would wait until the audit of an import is complete. Always returns `False`, because the caller
    has no work left.
    """
    now = time.time()
    for (account, region, name), table in dynamodb._tables.all_items():
        if not table.get("LatestStreamArn"):
            continue
        end = dynamodb.stream_end_position(name, account_id=account, region=region)
        for reader in list(_readers(table["LatestStreamArn"])):
            is_behind = lambda_svc._dynamodb_stream_positions.get_scoped(*reader, 0) < end
            may_try = lambda_svc._esm_backoff_until.get_scoped(*reader, 0) <= now
            if is_behind and may_try and reader[-1] not in lambda_svc._esm_inflight:
                lambda_svc._dispatch_esm_batch(reader[-1], _read_to_end, reader)
    return False


def _read_to_end(reader: tuple[str, str, str]) -> None:
    """Read a stream to its end for one event source mapping, batch by batch."""
    account, region, _ = reader
    # MiniStack's own function, in a namespace with this mapping only.
    alone = {
        "_iter_all_esms": lambda: iter([(account, region, lambda_svc._esms.get_scoped(*reader))]),
        "_execute_function": _execute_batch,
    }
    while FunctionType(POLL_STREAMS.__code__, vars(lambda_svc) | alone)():
        pass


def _execute_batch(function: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """Pass a batch of a stream to a function. If the function reports failed records, the whole batch has failed.

    MiniStack then delivers the batch again, without a limit. Otherwise it would skip the failed records. AWS delivers
    the records from the first failed one, and gives up after a number of attempts.
    """
    result: dict[str, Any] = lambda_svc._execute_function(function, event)
    if failed := (result.get("body") or {}).get("batchItemFailures"):
        result |= {"error": True, "body": {"errorType": "batchItemFailures", "errorMessage": str(failed)}}
    return result


class SharedPackage(zipfile.ZipFile):
    """Package of a function. All workers of the function share one unpacked copy in MiniStack's temporary folder."""

    _unpacking = threading.Lock()

    def extractall(self, path: Any = None, members: Any = None, pwd: bytes | None = None) -> None:
        """Fill the folder `path` with links to the shared copy. The first call creates the copy.

        Calls without `path` or with `members` behave as in ZipFile.
        """
        if path is None or members is not None:
            super().extractall(path, members, pwd)
            return
        copy = Path(tempfile.gettempdir()) / f"package-{sha256(Path(str(self.filename)).read_bytes()).hexdigest()}"
        with self._unpacking:
            if not copy.exists():
                fresh = Path(tempfile.mkdtemp())
                super().extractall(fresh)
                fresh.rename(copy)
        for entry in copy.iterdir():
            (Path(path) / entry.name).symlink_to(entry)


def patch_ministack(keeper: StateSaver | None) -> None:
    """Patch MiniStack's modules, with these effects:

    - `keeper`, if there is one, receives each change of an item. Queries read ordered partitions.
    - This module expires items and reads the streams. A batch with failed records is delivered again.
    - A queue keeps its URL when the port changes.
    - Functions have a memory limit, start faster, and respond without the delay for log lines.
    - HTTP responses match API Gateway: challenges of a 401, Vary headers, and bodies that are not UTF-8.
    """
    queries.install()
    set_item, remove_item, items_replaced = dynamodb._set_item, dynamodb._remove_item, dynamodb._items_replaced

    def set_and_keep(table: Any, pk: str, sk: str, item: Any) -> Any:
        if keeper:
            keeper.touch(table, pk, sk)
        return set_item(table, pk, sk, item)

    def remove_and_keep(table: Any, pk: str, sk: str) -> Any:
        if threading.current_thread().name == MINISTACKS_REAPER:
            return None
        if keeper:
            keeper.touch(table, pk, sk)
        return remove_item(table, pk, sk)

    def replace_and_keep(table: Any) -> None:
        if keeper:
            keeper.empty(table)
        items_replaced(table)

    dynamodb._set_item, dynamodb._remove_item = set_and_keep, remove_and_keep
    dynamodb._items_replaced = replace_and_keep
    if keeper:
        dynamodb.get_state = _state_without_items(dynamodb.get_state)
    original_cors_headers = apigateway._cors_response_headers

    def cors_headers(*arguments: Any) -> dict[str, str]:
        """Return MiniStack's CORS headers without Vary. MiniStack would otherwise overwrite the Vary header of the
        function's response."""
        return {name: value for name, value in original_cors_headers(*arguments).items() if name != "Vary"}

    apigateway._cors_response_headers = cors_headers  # all origins get the same response
    validate_token = apigateway._validate_jwt_authorizer

    async def check_and_challenge(route: Any, authorizer: Any, headers: dict[str, str], *rest: Any) -> Any:
        """Check a token. A 401 response has the header WWW-Authenticate, with the error if a token was sent, as on AWS."""
        claims, scopes, refusal = await validate_token(route, authorizer, headers, *rest)
        if refusal and refusal[0] == 401:
            status, answer_headers, body = refusal
            sent = "authorization" in headers
            scheme = (
                'Bearer scope="" error="invalid_token" error_description="the token is not valid"' if sent else "Bearer"
            )
            refusal = status, answer_headers | {"WWW-Authenticate": scheme}, body
        return claims, scopes, refusal

    apigateway._validate_jwt_authorizer = check_and_challenge
    invoke = apigateway._invoke_lambda_proxy

    async def invoke_with_length(
        integration: Any,
        api_id: str,
        stage: str,
        path: str,
        method: str,
        headers: dict[str, str],
        body: bytes,
        *rest: Any,
        **more: Any,
    ) -> Any:
        """Invoke a function. If the body is not UTF-8, replace each invalid byte by U+FFFD.

        Content-Length still counts the original bytes.
        """
        try:
            (body or b"").decode()
        except UnicodeDecodeError:
            headers = headers | {"content-length": str(len(body))}
            body = re.sub("[\udc80-\udcff]", "\ufffd", body.decode(errors="surrogateescape")).encode()
        return await invoke(integration, api_id, stage, path, method, headers, body, *rest, **more)

    apigateway._invoke_lambda_proxy = invoke_with_length
    lambda_svc._poll_dynamodb_streams = read_streams
    trim, trimming = dynamodb._trim_stream_records, threading.Lock()

    def trim_exclusively(*table: Any, **scope: Any) -> None:
        with trimming:  # concurrent threads would delete each other's records
            trim(*table, **scope)

    dynamodb._trim_stream_records = trim_exclusively
    queue_url = sqs._queue_url_for_account

    def existing_url(account: str, name: str) -> str:
        """Return the URL of a queue. An existing queue keeps its URL, even if an earlier run used another port."""
        url: str = queue_url(account, name)
        if url in sqs._queues:
            return url
        return next((str(kept) for kept in sqs._queues if kept.endswith(f"/{account}/{name}")), url)

    sqs._queue_url_for_account = existing_url
    drain_stderr = lambda_runtime.Worker._drain_stderr_bounded
    lambda_runtime.Worker._drain_stderr_bounded = partialmethod(drain_stderr, first_line_wait=LOG_SECONDS)
    lambda_runtime.zipfile = SimpleNamespace(**vars(zipfile) | {"ZipFile": SharedPackage})
    script = lambda_runtime._PYTHON_WORKER_SCRIPT.replace(lambda_runtime.INVOKE_DEPTH_BOOTSTRAP, COUNT_NO_CALLS)
    lambda_runtime._PYTHON_WORKER_SCRIPT = LIMIT_MEMORY + script if sys.platform == "linux" else script


def _state_without_items(get_state: FunctionType) -> Callable[[], Any]:
    """Return a replacement of DynamoDB's `get_state` that omits the items. MiniStack would copy and write all of them."""

    def get() -> Any:
        described = responses.AccountRegionScopedDict()
        for scope, table in dynamodb._tables.all_items():
            described.set_scoped(*scope, table | {"items": {}})
        # The same function with other global variables, so that concurrent requests still use the real tables.
        return FunctionType(get_state.__code__, vars(dynamodb) | {"_tables": described})()

    return get


def listen_on(sockets: Sequence[int]) -> Ports:
    """Make MiniStack's server listen on inherited sockets. `sockets` has file descriptors. Returns the ports.

    The parent process has already bound the sockets, so no other program can take a port before the server uses it.
    """
    serve = hypercorn.asyncio.serve

    async def serve_on(app: Any, config: Any, **options: Any) -> None:
        config.bind = [f"fd://{number}" for number in sockets]
        await serve(app, config, **options)

    hypercorn.asyncio.serve = serve_on
    ports = []
    for number in sockets:
        with socket.socket(fileno=os.dup(number)) as copy:
            ports.append(int(copy.getsockname()[1]))
    return Ports(*ports)


def _secret(access_key_id: str) -> str | None:
    """Return the secret key of an access key id. `None` if the id is unknown or its session has expired.

    Known ids are the account id, and the ids that clients such as the CDK received when they assumed a role. The secret
    key of the account id is new at each start.
    """
    if access_key_id == ACCOUNT:
        return os.environ["AWS_SECRET_ACCESS_KEY"]
    session = sts._sessions.get(access_key_id)
    return None if session is None or sts._session_expired(session) else str(session["SecretAccessKey"])


def _deployed_api() -> str | None:
    return next((scope[-1] for scope, _ in apigateway._apis.all_items()), None)


def _buckets() -> Any:
    return ministack._get_module("s3")._buckets


def _serve() -> None:
    """Run MiniStack in this process, and stop it cleanly when the parent process ends."""
    end_with_parent()
    keeper = StateSaver(Path(persistence.STATE_DIR)) if persistence.PERSIST_STATE else None
    patch_ministack(keeper)
    ports = listen_on([int(number) for number in os.environ.pop(SOCKETS).split(",")])
    engine = Engine(SharedCache(ministack.app), keeper)
    ministack.app = Guard(engine, ports, secret=_secret, buckets=_buckets, api=_deployed_api, guide=Guide().respond)
    ministack.main()


if __name__ == "__main__":
    _serve()
