"""Reverts of change sets. A request reverts a small change set itself. A worker reverts a large one, page by page.

A page is divided into parts. A part has the entries about one video, related item or playlist
(shared/history/parts.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.aws.dynamodb import LARGEST_TRANSACTION, Table
from shared.aws.records import key_of
from shared.core.attributes import Item
from shared.core.errors import TRANSIENT_ERRORS
from shared.core.position import Position
from shared.history.changesets import ChangeSets, change_set_not_found, position_of
from shared.history.outcome import RevertResult
from shared.history.parts import ChangeSetPart, InTime, PartReverts, RevertOutcome, group_into_parts
from shared.history.revert_runs import COUNTS, DONE, RUNNING, RevertRequest, RunStore, request_from_run, run_document
from shared.history.trail import AuditStore
from shared.processing.daily_quota import QuotaStore
from shared.schema import PARTITION_KEY, SORT_KEY

MAX_ENTRIES_INLINE = 100
"""Maximum number of audit entries of a change set that one request reverts. A worker reverts larger change sets."""
ENTRIES_PER_STEP = LARGEST_TRANSACTION - 1
"""Maximum number of audit entries on a page. One transaction stores the results of a page: the revert run, and at most
one report per entry."""
WAITING_PARTS_PER_STEP = ENTRIES_PER_STEP // 2
"""Maximum number of parts of a change set that one step retries. For each part, the step's transaction may store a
report, and delete the item of the waiting part."""

MAX_STALLS = 20
"""Maximum number of consecutive rounds of retries without a success. After these rounds (about 20 minutes), the
remaining parts fail."""
FIRST_PAUSE, LONGEST_PAUSE = 5, 60
"""Minimum and maximum seconds before a round of retries."""

Done = tuple[ChangeSetPart, RevertResult]
"""Part of a change set that needs no retry, and the outcome of its revert."""


@dataclass(frozen=True)
class _RevertPage:
    """Page of a change set that one step reverts."""

    parts: list[ChangeSetPart]
    """Parts to revert in this step."""
    postponed: list[ChangeSetPart]
    """Parts whose revert may delete a video. They are reverted later, because other parts of the same video may still have
    to be retried."""
    examined: int
    """Number of audit entries on the page."""
    resume: Position | None
    """Position of the next page; `None` after the last page."""
    is_complete: bool
    """Whether the next page certainly has no entries of the videos and playlists on this page. Has no meaning on the
    last page."""


class ChangeSetReverts:
    """Reverts of change sets. Skips fields that other authors changed later, unless the request forces them.

    One step of a large change set reverts `pages` pages on `threads` threads. The default of `threads` is
    CONCURRENT_PARTS. Set `pages` to more than 1 if each video has many audit entries, because one page then has too few
    videos for all threads.
    """

    def __init__(
        self, table: Table, trail: AuditStore, quota: QuotaStore, *, threads: int | None = None, pages: int = 1
    ) -> None:
        self._sets = ChangeSets(trail.table)
        self._runs = RunStore(table)
        self._parts = PartReverts(table, trail, quota, threads=threads)
        self._pages = pages

    def revert(
        self, changeset_id: str, request: RevertRequest, now: int, in_time: InTime
    ) -> tuple[dict[str, Any], bool]:
        """Revert a small change set, or store a revert run for a large one. A worker executes the stored run.

        A small change set has at most MAX_ENTRIES_INLINE audit entries. Returns the report, and whether it is final. A
        small change set is checked with a dry run first, so TRANSIENT_ERRORS such as TrailBehind are raised before any
        write. Raises NotFound if the change set has no entry that the caller may see. `now` is in epoch seconds.
        """
        keys = self._sets.list_keys(
            changeset_id, request.caller, now, limit=MAX_ENTRIES_INLINE, after=None, in_time=in_time
        )
        if keys.resume is not None:
            if not keys.items and not in_time():  # a very large change set, without an entry that the caller may see
                raise change_set_not_found()
            return run_document(self._runs.begin(changeset_id, request, now)) | {"items": []}, False
        entries = self._sets.entries(map(key_of, keys.items))
        if not entries:
            raise change_set_not_found()
        parts = group_into_parts(entries)
        outcomes = self._parts.revert(parts, replace(request, dry_run=True), now, in_time)
        for outcome in outcomes:
            if isinstance(outcome, TRANSIENT_ERRORS):
                raise outcome
        if not request.dry_run:
            outcomes = self._parts.revert(parts, request, now, in_time)
        done = [(part, _to_result(outcome)) for part, outcome in zip(parts, outcomes, strict=True)]
        run = {"changesetId": changeset_id, "revertId": request.own, "dryRun": request.dry_run, "state": DONE}
        run |= _add_counts(dict.fromkeys(COUNTS, 0), done) | {"examined": len(entries)}
        return run_document(run) | {"items": [part.report(outcome) for part, outcome in done]}, True

    def resume(
        self,
        revert_id: str,
        clock: Callable[[], float],
        in_time: InTime,
        on_step: Callable[[Item], object] = lambda run: None,
    ) -> int | None:
        """Execute a revert run until it is done or `in_time` returns false.

        Return the seconds until it must be resumed.

        Returns `None` if the run is done, or if another worker executes it. `clock` returns epoch seconds. `on_step` is
        called with the run before each step.

        The call may be interrupted at any point and repeated. The next call then also reports the changes that the
        interrupted call has reverted. Raises the errors of `shared.core.errors`.
        """
        return self._runs.execute(revert_id, clock, in_time, self.step, on_step)

    def step(self, run: Item, now: int, in_time: InTime) -> int:
        """Execute the next step of a revert run. Return the seconds to wait before the following step.

        Raises LeaseLost if another worker has written the run since it was read.
        """
        run_step = self._retry_waiting if run.get("walked") else self._revert_pages
        return run_step(run, now, in_time)

    def _revert_pages(self, run: Item, now: int, in_time: InTime) -> int:
        """Revert the next pages of the change set. Return the seconds to wait before the next step."""
        request = request_from_run(run)
        pages = self._next_pages(run, request, now)
        outcomes = iter(self._parts.revert([part for page in pages for part in page.parts], request, now, in_time))
        for page in pages:
            run = self._advance(run, page, [next(outcomes) for _ in page.parts], now)
        return FIRST_PAUSE if run.get("walked") and run["waiting"] else 0

    def _next_pages(self, run: Item, request: RevertRequest, now: int) -> list[_RevertPage]:
        """Read the pages of one step.

        If all entries of a page belong to one video or playlist, the next page may have more entries of that video or
        playlist. Such a page is therefore the last page of its step.
        """
        pages = [self._page(run, request, now, _position(run))]
        while len(pages) < self._pages and pages[-1].resume and pages[-1].is_complete:
            pages.append(self._page(run, request, now, pages[-1].resume))
        return pages

    def _page(self, run: Item, request: RevertRequest, now: int, after: Position | None) -> _RevertPage:
        keys = self._sets.list_keys(run["changesetId"], request.caller, now, limit=ENTRIES_PER_STEP, after=after)
        items, resume = keys.items, keys.resume
        # The entries of the last video or playlist may continue on the next page. All of them should be on one page.
        whole = [key for key in items if key[PARTITION_KEY] != items[-1][PARTITION_KEY]]
        if resume and whole:
            items, resume = whole, position_of(whole[-1])
        entries = self._sets.entries(map(key_of, items))
        parts = group_into_parts(entries)
        # A video must not be deleted before its other parts were retried. The other parts may be on the preceding page.
        postponed = [part for part in parts if part.rank > 0 and run["waiting"] and _begins_in(run, part)]
        tried = [part for part in parts if part not in postponed]
        return _RevertPage(tried, postponed, len(entries), resume, is_complete=bool(whole))

    def _advance(self, run: Item, page: _RevertPage, outcomes: Sequence[RevertOutcome], now: int) -> Item:
        """Write the results of a page, and return the run as stored. `outcomes` are in the order of `page.parts`."""
        done, waits = _split_outcomes(page.parts, outcomes)
        waits += page.postponed
        new = _at(run, page.resume) | _add_counts(run, done)
        new["last"] = run["last"] + sum(part.rank > 0 for part in waits)
        new |= {"examined": run["examined"] + page.examined, "waiting": run["waiting"] + len(waits)}
        if page.resume is None:
            new |= {"walked": True, "state": RUNNING if new["waiting"] else DONE}
        return self._runs.advance(run, new, now, reports=_list_reports(done), waits=list(map(_wait, waits)))

    def _retry_waiting(self, run: Item, now: int, in_time: InTime) -> int:
        """Retry the next page of waiting parts: parts that had a transient error, or were postponed.

        Return the seconds to wait before the next step.
        """
        page = self._runs.list_waiting(run["revertId"], WAITING_PARTS_PER_STEP, _position(run))
        keys = [{PARTITION_KEY: wait["of"], SORT_KEY: sort_key} for wait in page.items for sort_key in wait["entries"]]
        entries = {(entry[PARTITION_KEY], entry[SORT_KEY]): entry for entry in self._sets.entries(keys)}
        waits: list[Item] = []
        parts: list[ChangeSetPart] = []
        # Videos that may be deleted are last, because their related items cannot be changed after that.
        due = [wait for wait in page.items if run["waiting"] == run["last"] or not wait["last"]]
        for wait in due:
            keys_of_part = [(wait["of"], sort_key) for sort_key in wait["entries"]]
            if present := tuple(entries[key] for key in keys_of_part if key in entries):
                waits.append(wait)
                parts.append(ChangeSetPart(present))
        expired = [wait for wait in due if wait not in waits]
        outcomes = self._parts.revert(parts, request_from_run(run), now, in_time)
        if run["stalls"] >= MAX_STALLS:
            outcomes = list(map(_to_result, outcomes))
        done, _ = _split_outcomes(parts, outcomes)
        settled = [
            wait for wait, outcome in zip(waits, outcomes, strict=True) if isinstance(outcome, RevertResult)
        ] + expired
        new = _at(run, page.resume) | _add_counts(run, done)
        new["waiting"] -= len(settled)
        new["last"] = run["last"] - sum(wait["last"] for wait in settled)
        new["moved"] = run.get("moved", False) or bool(settled)
        if page.resume is None:
            stalls = 0 if new["moved"] else run["stalls"] + 1
            new |= {"stalls": stalls, "moved": False, "state": RUNNING if new["waiting"] else DONE}
        self._runs.advance(run, new, now, reports=_list_reports(done), settled=settled)
        if page.resume or new["state"] == DONE:
            return 0
        return min(FIRST_PAUSE << int(new["stalls"]), LONGEST_PAUSE)


def _position(run: Item) -> Position | None:
    """Return the position in the change set from which a revert run resumes; `None` at the beginning."""
    return Position(0, run["after"]) if "after" in run else None


def _at(run: Item, position: Position | None) -> Item:
    """Return a copy of the revert run that resumes from another position in the change set."""
    moved = {name: value for name, value in run.items() if name != "after"}
    return moved | ({"after": position.id} if position else {})


def _begins_in(run: Item, part: ChangeSetPart) -> bool:
    """Return whether a part belongs to the last video or playlist of the previous page."""
    return str(run.get("after", "")).startswith(f"{part.partition}#")


def _split_outcomes(
    parts: Sequence[ChangeSetPart], outcomes: Sequence[RevertOutcome]
) -> tuple[list[Done], list[ChangeSetPart]]:
    """Return the parts that are done, with their results, and the parts that must be retried."""
    done: list[Done] = []
    waits: list[ChangeSetPart] = []
    for part, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, RevertResult):
            done.append((part, outcome))
        else:
            waits.append(part)
    return done, waits


def _to_result(outcome: RevertOutcome) -> RevertResult:
    """Return the result of reverting a part of a change set. If `outcome` is an error, the result is `failed`."""
    return outcome if isinstance(outcome, RevertResult) else RevertResult.failed(outcome)


def _add_counts(counts: Mapping[str, Any], done: Iterable[Done]) -> dict[str, Any]:
    """Return the counters of a run, increased by the outcomes of these parts."""
    new = {name: counts[name] for name in COUNTS}
    for _, outcome in done:
        new[outcome.result] += 1
    return new


def _list_reports(done: Iterable[Done]) -> list[dict[str, Any]]:
    return [
        part.report(outcome) for part, outcome in done if outcome.skipped or outcome.result in ("skipped", "failed")
    ]


def _wait(part: ChangeSetPart) -> dict[str, Any]:
    """Return the attributes to store for a part that must be retried."""
    return {
        "of": part.partition,
        "entries": [entry[SORT_KEY] for entry in part.entries],
        "last": part.rank > 0,
    }
