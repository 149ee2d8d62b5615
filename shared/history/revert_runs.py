"""Revert runs: the stored progress of large reverts and of moves of folders. Workers resume from the progress, and the
user who requested the run can read it.

A run is one item. Its partition also has an item for each part of the change set that was skipped, has failed or must
be retried. A worker writes the results of a page in one transaction, on condition that no other worker has written the
run since it was read. Therefore the results of each page are counted exactly once, and a run resumes after the last
page that was written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.leases import TURN, LeaseLost, fence, next_turn, write_with_lease
from shared.aws.records import ABSENT, key_of, new_write_id, with_audit_fields, write_once
from shared.core.attributes import Item, Value, decode_item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.core.position import Page, Position
from shared.core.telemetry import service_logger
from shared.routes import ADMIN, READ, WRITE
from shared.schema import PARTITION_KEY, REVERT, REVERT_PART, SORT_KEY, TTL_ATTRIBUTE

if TYPE_CHECKING:
    from shared.aws.stream import Record  # Powertools, which functions of the API do not load
    from shared.processing.messages import Outgoing

DAYS_KEPT = 30
"""Number of days for which a revert run is retained."""
RUNNING, DONE = "running", "done"
"""States of a revert run."""
COUNTS = ("examined", "reverted", "unchanged", "skipped", "failed", "waiting")
"""Names of a revert run's counters. `examined` counts audit entries. The other counters count parts of the change set
by outcome."""
DOCUMENT = ("changesetId", "revertId", "dryRun", "state", *COUNTS)
"""Names of a revert run's attributes in API responses."""

REPORTED, _WAITING = "part-", "waits-"
"""Prefixes of sort keys: of parts that have a report, and of parts that must be retried."""


@dataclass(frozen=True)
class RevertRequest:
    """Request to revert a change set."""

    caller: Caller
    """User who requested the revert. The caller's correlation id is the id of the run. Therefore all writes of the run
    are one change set."""
    force: tuple[str, ...] = ()
    """JSON Pointers of fields to revert even if other authors changed them later."""
    dry_run: bool = False
    """Whether to compute the outcome without writing it."""
    attended: bool = False
    """Whether the command line executes the run in its own process, instead of a worker."""

    @property
    def own(self) -> str:
        """Id of the run."""
        return self.caller.correlation_id or ""


def run_begun(record: "Record", now: int) -> "Iterable[Outgoing]":
    """Return the message that queues a new revert run for a worker. Returns no message if the command line executes the
    run (`attended`)."""
    # Imported late, because functions of the API must not load pydantic for this module.
    from shared.processing.messages import REVERTS_QUEUE, Outgoing, revert_message

    return () if record.new["attended"] else [Outgoing(REVERTS_QUEUE, revert_message(record.new["revertId"]))]


Step = Callable[[Item, int, Callable[[], bool]], int]
"""Function that executes the next step of a run, and returns the seconds to wait before the following step.

Its parameters are the run, the time in epoch seconds, and a function that returns whether there is time."""


class RunStore:
    """Store of revert runs and their parts in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def begin(self, changeset_id: str, request: RevertRequest, now: int, **about: Value) -> Item:
        """Store and return a new run. The stream router queues the run for a worker, unless the command line executes
        it (`request.attended`). Costs one PutItem.

        `about` has the additional attributes of the run of a folder move.
        """
        content = {
            **about,
            **REVERT.key(revertId=request.own),
            "revertId": request.own,
            "changesetId": changeset_id,
            "userId": request.caller.subject,
            "isAdmin": request.caller.is_admin,
            "dryRun": request.dry_run,
            "force": list(request.force),
            "attended": request.attended,
            "state": RUNNING,
            **dict.fromkeys(COUNTS, 0),
            **dict.fromkeys(("turn", "last", "stalls"), 0),
            "writeId": new_write_id(),
            TTL_ATTRIBUTE: now + DAYS_KEPT * 86_400,
        }
        run = with_audit_fields(content, request.caller, now)
        write_once(self.table, [self.table.put(run, condition=ABSENT)], run)
        return run

    def execute(
        self,
        run_id: str,
        clock: Callable[[], float],
        in_time: Callable[[], bool],
        step: Step,
        on_step: Callable[[Item], object] = lambda run: None,
    ) -> int | None:
        """Execute the steps of a run until it is done or `in_time` returns false.

        Return the seconds until the run must be resumed; `None` if it is done, or if another worker executes it.
        `clock` returns epoch seconds. `on_step` is called with the run before each step.
        """
        while (run := self.read(run_id)) and run["state"] != DONE:
            on_step(run)
            if not in_time():
                return 0
            try:
                pause = step(run, int(clock()), in_time)
            except LeaseLost:
                service_logger().info("lease taken by another worker", extra={"revert_id": run_id})
                return None
            if pause:
                return pause
        return None

    def read(self, revert_id: str) -> Item | None:
        """Return a revert run, or `None` if it does not exist. Costs one consistent GetItem."""
        return self.table.get(REVERT.key(revertId=revert_id), consistent=True)

    def read_visible(self, changeset_id: str, revert_id: str, caller: Caller, now: int) -> Item:
        """Return a revert run of this change set. Admins may read the runs of all users.

        Raises NotFound if the run does not exist, has expired, or belongs to another user.
        """
        run = self.read(revert_id)
        if (
            run is None
            or run["changesetId"] != changeset_id
            or "to" in run
            or run[TTL_ATTRIBUTE] <= now
            or not caller.owns(run["userId"])
        ):
            raise NotFound.of("revert")
        return run

    def read_move(self, move_id: str, caller: Caller, now: int) -> Item:
        """Return the run of a move. Admins may read the runs of all users.

        Raises NotFound if the run does not exist, has expired, or belongs to another user.
        """
        run = self.read(move_id)
        if run is None or "to" not in run or run[TTL_ATTRIBUTE] <= now or not caller.owns(run["userId"]):
            raise NotFound.of("move")
        return run

    def list_reports(self, revert_id: str, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a revert run's reports, oldest first.

        Each report is about a part that failed or has skipped fields.
        """
        return self._parts(revert_id, REPORTED, limit, after)

    def list_waiting(self, revert_id: str, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a revert run's parts that must be retried, oldest first. Costs one consistent Query."""
        return self._parts(revert_id, _WAITING, limit, after, consistent=True)

    def _parts(
        self, revert_id: str, prefix: str, limit: int, after: Position | None, *, consistent: bool = False
    ) -> Page[Item]:
        pk = REVERT.key(revertId=revert_id)[PARTITION_KEY]
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk AND begins_with(#sk, :prefix)", pk=pk, prefix=prefix),
            limit=limit,
            start={PARTITION_KEY: pk, SORT_KEY: after.id} if after else None,
            consistent=consistent,
        )
        resume = Position(0, decode_item(page.last_key)[SORT_KEY]) if page.last_key else None
        return Page(page.items, resume)

    def advance(
        self,
        run: Item,
        new: Item,
        now: int,
        *,
        reports: Sequence[Mapping[str, Any]] = (),
        waits: Sequence[Mapping[str, Any]] = (),
        named_reports: Mapping[str, Mapping[str, Any]] | None = None,
        settled: Sequence[Item] = (),
    ) -> Item:
        """Write the results of a page in one transaction, and return the run as stored.

        `run` is the run as it was read, and `new` is the run that includes the page's results. Stores the `reports` of
        parts. Also stores the parts in `waits`, because they must be retried. `named_reports` has reports by name. Each
        of them replaces an earlier report with the same name. Deletes the parts in `settled`, because they no longer
        need a retry.

        Raises LeaseLost if another worker has written the run since `run` was read.
        """
        caller = caller_from_run(run)
        new = with_audit_fields(new | next_turn(run), caller, now)
        still = fence(turn=run[TURN], state=RUNNING)
        writes = [self.table.update(key_of(run), change_between(run, new), condition=still)]
        parts = [(REPORTED, {"report": report}) for report in reports] + [(_WAITING, dict(wait)) for wait in waits]
        named = [(f"{prefix}{new['turn']:08}-{number:03}", content) for number, (prefix, content) in enumerate(parts)]
        named += [(f"{REPORTED}{name}", {"report": report}) for name, report in (named_reports or {}).items()]
        for name, content in named:
            key = REVERT_PART.key(revertId=run["revertId"], part=name)
            content |= {**key, "revertId": run["revertId"], TTL_ATTRIBUTE: run[TTL_ATTRIBUTE]}
            writes.append(self.table.put(with_audit_fields(content, caller, now)))
        writes += [self.table.remove(key_of(part)) for part in settled]
        write_with_lease(self.table, writes, new)
        return new


def caller_from_run(run: Item) -> Caller:
    """Return the user who started a revert run, as the author of the run's writes. The correlation id is the run's id."""
    scopes = frozenset({READ, WRITE, *([ADMIN] if run["isAdmin"] else [])})
    return Caller(run["userId"], scopes, correlation_id=run["revertId"])


def request_from_run(run: Item) -> RevertRequest:
    """Return the request that started a revert run."""
    return RevertRequest(caller_from_run(run), tuple(run["force"]), run["dryRun"])


def run_document(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a revert run for API responses. It does not have the run's parts."""
    return {name: run[name] for name in DOCUMENT}


def move_document(run: Item) -> dict[str, Any]:
    """Return the document of a move for API responses. It has the number of failed videos, but not their list."""
    return {
        "moveId": run["revertId"],
        "userId": run["owner"],
        "folder": run["folder"],
        "to": run["to"],
        "state": run["state"],
        "moved": run["reverted"],
        "failed": run["failed"],
        "waiting": run["waiting"],
    }
