"""Batch writes: many videos in one request, each operation with its own result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.aws.records import new_write_id
from shared.core.caller import IdempotentRequest
from shared.core.changes import truncate_to_fit
from shared.core.errors import InvalidContent, ServiceError, Unavailable, WriteContention, invalid_field, pointer
from shared.threads import map_threads
from shared.videos import video
from shared.videos.access import is_purged, require_owned
from shared.videos.batch_models import CreateOperation, DeleteOperation, PatchOperation, UpsertOperation
from shared.videos.documents import changes, document
from shared.videos.links import Links
from shared.videos.store import VideoStore, already_exists_error, apply_edit, being_removed_error
from shared.web.etags import if_match
from shared.web.requests import Request
from shared.web.responses import failed_part

if TYPE_CHECKING:
    from shared.entities import Video

WORKERS = 16
"""Maximum number of operations that run in parallel. It equals the size of the DynamoDB client's connection pool."""
OPERATION_ATTEMPTS = 5
"""Maximum attempts of one operation, including the first.

An attempt fails if DynamoDB is busy, or if `retry_on_conflict` gives up. The retries within `retry_on_conflict` have
shorter pauses, and do not check the deadline of the batch.
"""
LONGEST_PAUSE = 4.0
"""Maximum pause between two attempts of one operation, in seconds."""
LAST_TRY_SECONDS = 9
"""Seconds from the start of a batch after which no attempt begins.

An attempt takes up to 17 s if two of its DynamoDB requests succeed only at their last retries. The Lambda function
times out after 28 s.
"""

LARGEST_CHANGES = 20_000
"""Maximum size of the changes that a dry run reports for one operation, in bytes.

The changes of 100 operations must fit Lambda's response limit of 6 MB.
"""

Result = dict[str, Any]

_STATUSES = {"create": 201, "patch": 200, "delete": 204}
_OPERATIONS = (*_STATUSES, "upsert")
_CONTENT = {"patch": "patch", "upsert": "video"}
"""Name of the member that contains the content of an operation, by value of `op`. Pointers in the operation's errors
are relative to this member. If `op` has no entry, they are relative to the operation."""


@dataclass(frozen=True)
class _Creation:
    item: "Video"
    once: IdempotentRequest | None


@dataclass(frozen=True)
class _Edit:
    apply: Callable[["Video"], "Video"]
    matches: Callable[[int], bool]


@dataclass(frozen=True)
class _Upsert:
    """Edit of an upsert. It replaces the upsert's creation if `owner` already has a video with `external_id`."""

    owner: str
    external_id: str
    edit: _Edit


@dataclass(frozen=True)
class _BatchOperation:
    """Operation of a batch after validation."""

    position: int
    op: str
    video_id: str
    is_client_id: bool
    """Whether the client supplied the video's id. If not, the server generated it for this request."""
    work: _Creation | _Edit
    upsert: _Upsert | None = None

    @property
    def group(self) -> str:
        """Key that operations on the same video share. Operations with the same key must run in order."""
        return f"{self.upsert.owner}#{self.upsert.external_id}" if self.upsert else self.video_id


class Batches:
    """Executor of batches. It can also preview the results without writing."""

    def __init__(self, store: VideoStore, links: Links, elapsed: Callable[[], float]) -> None:
        self._store = store
        self._links = links
        self._elapsed = elapsed

    def carry_out(self, request: Request, bodies: Sequence[object]) -> list[Result]:
        """Execute the operations and return their results in request order.

        Operations on the same video run in order, and other operations in parallel. Throttled or conflicting operations
        are retried with backoff. If the deadline prevents a retry of an operation, its result has the status 503 or
        409.
        """
        operations, results = self._read_all(request, bodies)
        deadline = self._elapsed() + LAST_TRY_SECONDS
        by_video: dict[str, list[_BatchOperation]] = {}
        for operation in operations:
            by_video.setdefault(operation.group, []).append(operation)

        def in_order(group: Sequence[_BatchOperation]) -> dict[int, Result]:
            return {
                operation.position: _result(operation, partial(self._done, operation, request, deadline))
                for operation in group
            }

        for done in map_threads(in_order, by_video.values(), WORKERS):
            results |= done
        return [results[position] for position in sorted(results)]

    def rehearse(self, request: Request, bodies: Sequence[object]) -> list[Result]:
        """Return the results that the batch would have now, with the changes of each operation.

        Nothing is written. Each operation sees the effects of the preceding operations. Raises Unavailable if the
        videos cannot be read.
        """
        operations, results = self._read_all(request, bodies)
        video_ids = dict.fromkeys(operation.video_id for operation in operations if operation.is_client_id)
        present = {item["videoId"]: item for item in self._store.items(video_ids, consistent=True)}
        taken: dict[str, str] = {}

        def previewed(operation: _BatchOperation) -> Result:
            operation = self._resolved(operation, request, taken)
            if isinstance(operation.work, _Edit) and operation.video_id not in present:
                items = self._store.items([operation.video_id], consistent=True)
                present.update({item["videoId"]: item for item in items})
            before = present.get(operation.video_id)
            after = _next(before, operation, request)
            self._store.require_unique(before or {}, after, request.now, taken)
            present[operation.video_id] = after
            old = {} if before is None or isinstance(operation.work, _Creation) else self._to_document(before)
            return {
                "status": _status(operation),
                "version": after["version"],
                **truncate_to_fit({"changes": list(changes(old, self._to_document(after)))}, LARGEST_CHANGES),
            }

        results |= {operation.position: _result(operation, partial(previewed, operation)) for operation in operations}
        return [results[position] for position in sorted(results)]

    def _read_all(self, request: Request, bodies: Sequence[object]) -> tuple[list[_BatchOperation], dict[int, Result]]:
        """Return the valid operations. Also return the error results of invalid operations, by their position in the
        batch."""
        operations: list[_BatchOperation] = []
        results: dict[int, Result] = {}
        for position, body in enumerate(bodies):
            try:
                operations.append(self._read(request, position, body))
            except InvalidContent as error:
                op = body.get("op") if isinstance(body, dict) else None
                identification = {"op": op} if isinstance(op, str) and op in _OPERATIONS else {}
                results[position] = identification | failed_part(error, pointer(("operations", position)))
        return operations, results

    def _read(self, request: Request, position: int, body: object) -> _BatchOperation:
        if not isinstance(body, dict):
            raise invalid_field("", "must be an object")
        op = body.get("op")
        if op == "create":
            return self._creation(request, position, CreateOperation.read(body))
        if op == "upsert":
            return self._upsert(request, position, UpsertOperation.read(body))
        if op == "patch":
            patch_operation = PatchOperation.read(body)
            patch = self._links.to_uris(patch_operation.patch.model_dump(exclude_unset=True), "/patch")
            return _edition(position, patch_operation, lambda item: video.apply_patch(item, patch, request.now))
        if op == "delete":
            return _edition(position, DeleteOperation.read(body), lambda item: video.mark_deleted(item, request.now))
        detail = f"must be one of {', '.join(_OPERATIONS)}"
        raise invalid_field("/op", detail)

    def _creation(self, request: Request, position: int, operation: CreateOperation) -> _BatchOperation:
        sent = self._links.to_uris(operation.video.model_dump(exclude_none=True), "/video")
        once = request.once(sent)
        item = video.with_defaults(sent, request.caller, request.now, "/video")
        return _BatchOperation(
            position,
            operation.op,
            item["videoId"],
            is_client_id=item["videoId"] == sent.get("videoId"),
            work=_Creation(item, replace(once, key=f"{once.key}#{position}") if once else None),
        )

    def _upsert(self, request: Request, position: int, operation: UpsertOperation) -> _BatchOperation:
        sent = self._links.to_uris(operation.video.model_dump(exclude_none=True), "/video")
        if "externalId" not in sent:
            raise invalid_field("/video/externalId", "is required in an upsert")
        item = video.with_defaults(sent, request.caller, request.now, "/video")
        given = operation.video.model_fields_set
        patch = {name: value for name, value in sent.items() if name in given and name not in video.SERVER_FIELDS}
        edit = _Edit(lambda item: video.apply_patch(item, patch, request.now), lambda version: True)
        return _BatchOperation(
            position,
            operation.op,
            item["videoId"],
            is_client_id=item["videoId"] == sent.get("videoId"),
            work=_Creation(item, None),  # an upsert may be repeated without an Idempotency-Key
            upsert=_Upsert(item["userId"], sent["externalId"], edit),
        )

    def _done(self, operation: _BatchOperation, request: Request, deadline: float) -> Result:
        """Execute an operation, with retries.

        Raises the error of the last attempt, or Unavailable if the deadline leaves no time for an attempt.
        """
        # All attempts share this id, so a retry recognises an earlier write whose response was lost.
        write_id = new_write_id()
        failure: ServiceError = Unavailable("Time ran out before this operation, so it changed nothing.")
        for attempt in range(OPERATION_ATTEMPTS):
            if attempt:
                self._store.table.pause(attempt + 2, LONGEST_PAUSE)
            if self._elapsed() > deadline:
                break
            try:
                resolved = self._resolved(operation, request, {})
                written = self._write(resolved, request, write_id)
            except (Unavailable, WriteContention) as error:
                failure = error
            else:
                return {
                    "videoId": written["videoId"],
                    "status": _status(resolved),
                    "version": written["version"],
                }
        raise failure

    def _resolved(self, operation: _BatchOperation, request: Request, taken: Mapping[str, str]) -> _BatchOperation:
        """Resolve an upsert: return it as an edit if the owner has a video with the external id, otherwise as a
        creation.

        `taken` has the reservations that preceding operations of a dry run would write. The keys are partition keys of
        reservations, and the values are video ids.
        """
        upsert = operation.upsert
        if upsert is None:
            return operation
        holder = self._store.find_unique(upsert.owner, "externalId", upsert.external_id, request.now, taken)
        return operation if holder is None else replace(operation, video_id=holder, work=upsert.edit)

    def _write(self, operation: _BatchOperation, request: Request, write_id: str) -> dict[str, Any]:
        caller, now, work = request.caller, request.now, operation.work
        if isinstance(work, _Creation):
            return self._store.create(
                work.item, caller, now, work.once, write_id=write_id, has_client_id=operation.is_client_id
            )
        return self._store.change(operation.video_id, caller, now, work.apply, matches=work.matches, write_id=write_id)

    def _to_document(self, item: "Video") -> dict[str, Any]:
        return self._links.to_urls(document(item), is_own=True)


def _edition(
    position: int, operation: PatchOperation | DeleteOperation, edit: Callable[["Video"], "Video"]
) -> _BatchOperation:
    work = _Edit(edit, partial(if_match, operation.ifMatch))
    return _BatchOperation(position, operation.op, operation.videoId, is_client_id=True, work=work)


def _status(operation: _BatchOperation) -> int:
    """Return the HTTP status with which an operation succeeds."""
    if operation.op != "upsert":
        return _STATUSES[operation.op]
    return _STATUSES["create" if isinstance(operation.work, _Creation) else "patch"]


def _next(before: "Video | None", operation: _BatchOperation, request: Request) -> "Video":
    """Return the video that the operation would write. Raises the error that the operation would report."""
    caller, now, work = request.caller, request.now, operation.work
    if isinstance(work, _Creation):
        if before is not None:
            raise being_removed_error() if is_purged(before, now) else already_exists_error()
        return video.stamp(work.item, caller=caller, now=now, version=1)
    item = require_owned(before, caller, now)
    return apply_edit(video.to_current_schema(item), caller, now, work.apply, work.matches) or item


def _result(operation: _BatchOperation, work: Callable[[], Result]) -> Result:
    """Return the result of an operation: the values that `work` returns, or the problem document of the error that it
    raises."""
    result: Result = {"op": operation.op}
    if operation.is_client_id:
        result["videoId"] = operation.video_id
    try:
        return result | {"status": _status(operation)} | work()
    except Exception as error:
        # A failing operation, even if a bug is the cause, must not hide the results of the other operations.
        at = ("operations", operation.position, *((_CONTENT[operation.op],) if operation.op in _CONTENT else ()))
        return result | failed_part(error, pointer(at))
