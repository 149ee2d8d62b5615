"""Reconciliation: compares and repairs index entries, ratings and all totals under live traffic.

Each total has a version. Every transaction that changes a counted item also increments the version of the total.
Therefore a computed sum is valid if the version did not change while the items were read. A repair has the condition
that the total still has this version, so it cannot undo a concurrent change. If an item changes during every
comparison, the run reports the item as busy.

Indexes are eventually consistent, so a difference counts only if two comparisons some seconds apart find the same
difference. The MARKER item of a video stores the amounts that the totals contain for this video. The stream consumers
update MARKER items, index entries and rating totals some seconds late. Therefore the run waits longer before it
compares these items again. It waits once for all differences of a batch.

A run may miss a video whose status changes concurrently, or may count a video that is being deleted. A second run
corrects this.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Literal, TypeVar

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.listing import single_partition
from shared.aws.records import at_version, key_of, retry_on_conflict, unchanged
from shared.background.aggregates import (
    Aggregates,
    folder_addition,
    service_addition,
    tag_addition,
    user_addition,
)
from shared.background.comparison import Comparison, ConcurrentChange, Difference, Family, UserCounts, grouped
from shared.background.operations import MAX_REPORTED
from shared.background.totals import folder_count_key
from shared.background.view_comparison import ViewComparison
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Conflict, NotFound, Unavailable
from shared.relations.entry_updates import EntryUpdater
from shared.relations.ratings import addition
from shared.schema import (
    COMPARISON_REPORT,
    PROFILE,
    RATING_TOTALS,
    SCHEMA_VERSION,
    SERVICE_TOTALS,
    TAG_COUNT,
    TAGS,
    USERS,
)
from shared.threads import map_threads
from shared.videos.reservations import ReservationMove
from shared.videos.sort_entries import SortEntries

RECONCILE = Caller.job("reconcile")
"""Author of the repairs of totals."""
MAX_COMPARISONS = 5
"""Maximum number of comparisons of one item. After that many concurrent changes, the run reports the item as busy."""
SECONDS_BETWEEN = 3
"""Seconds between two comparisons. An index usually becomes consistent in a fraction of a second."""
SECONDS_FOR_STREAM, MAX_WAITS = 10, 60
"""Seconds to wait for the stream before the differences of a batch are compared again. MAX_WAITS is the maximum number
of these waits in a run.

A run with repairs ignores the maximum, and always waits. Without the wait, the repair and the stream consumer could
both add the same amount.
"""
RECENTLY = 60
"""Seconds within which the stream consumers should process a change."""
THREADS, VIDEOS_AHEAD = 16, 1000
"""Number of videos that are compared concurrently, and number of videos per batch."""

Kind = Literal[
    "entries", "ratings", "reservations", "marker", "views", "user", "folder", "tag-count", "service", "video"
]
Outcome = Literal["found", "repaired", "busy", "unreadable"]


@dataclass(frozen=True)
class Discrepancy:
    """Finding of a run: a difference between expected and stored data, or an item that could not be compared."""

    kind: Kind
    """Kind of the compared data. The data of the kind `marker` are the amounts that a video has added to the totals."""
    id: str
    """Video id. For the kind `user`, the user id. For the kind `folder`, the user id, `/` and the path. For the kind
    `tag-count`, the case-folded tag. For the kind `service`, `all`."""
    expected: Mapping[str, Any]
    """Expected values that differ. Empty if the item was busy or unreadable."""
    found: Mapping[str, Any]
    """Stored values that differ. For an unreadable item, it contains only `error`, the reason."""
    outcome: Outcome
    """`found`: the data differs. `repaired`: the data differed, and the run corrected the difference. `busy`: the data
    changed during every comparison. `unreadable`: the comparison raised an error."""


@dataclass
class ReconcileSummary:
    """Numbers of videos, users and tags that a run has compared, and number of findings."""

    videos: int = 0
    users: int = 0
    tags: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """Number of findings, by outcome."""
    recent: int = 0
    """Number of `found` differences of videos that changed less than RECENTLY seconds ago. The stream consumers may
    still correct these.
    """

    is_service_compared: bool = True
    """Whether the run compared the totals of all videos. It cannot compare them if videos changed during the run, or if
    some items are unreadable."""

    @property
    def agrees(self) -> bool:
        """Whether no difference remains."""
        return not any(self.outcomes[outcome] for outcome in ("found", "busy", "unreadable"))


@dataclass(frozen=True)
class _Recheck:
    """Difference in a video's data that must be compared again, because a stream consumer may still correct it."""

    kind: Kind
    id: str
    compare: Callable[[Family], Difference | None]
    difference: Difference | None
    """Difference that the last comparison found; `None` if the video changed during that comparison."""


_Found = TypeVar("_Found")
"""Result of a comparison."""
_Look = Callable[[], Difference | None]
_Compare = Callable[[Family], Difference | None]
_Repair = Callable[[str, Difference], None]


class Reconcile:
    """Reconciler of all redundant data in one table. Reads only by key and index, never with a Scan.

    Memory use grows with the number of users and tags, but not with the number of videos. `clock` returns epoch
    seconds.
    """

    def __init__(
        self, table: Table, *, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.table = table
        self.comparison = Comparison(table, clock)
        self.aggregates = Aggregates(table)
        self.mover = EntryUpdater(table)
        self.sort_entries = SortEntries(table)
        self.views = ViewComparison(table, clock)
        self._clock = clock
        self._sleep = sleep
        self._repairs = False
        self._waits = 0
        self._report: Callable[[Discrepancy], None] = lambda _: None
        self._summary = ReconcileSummary()
        self._findings: list[Item] = []
        self._lock = Lock()

    def run(
        self,
        repair: bool,
        report: Callable[[Discrepancy], None],
        progress: Callable[[ReconcileSummary], None] = lambda _: None,
    ) -> ReconcileSummary:
        """Compare all redundant data, and return the summary. With `repair`, also correct the differences.

        Calls `report` with each finding immediately, and `progress` with the current summary after each video, user and
        tag. Videos are compared concurrently, but calls of `report` and `progress` never overlap.

        If an item cannot be read or compared, the run reports the item and continues. A run can be interrupted and
        repeated. Raises Unavailable if the table is unavailable.
        """
        self._repairs, self._report, self._summary, self._waits = repair, report, ReconcileSummary(), 0
        self._findings = []
        owners: set[str] = set()

        def compare(video_id: str) -> list[_Recheck]:
            late = self._try_compare("video", self._compare_video, video_id)
            with self._lock:
                self._summary.videos += 1
                progress(self._summary)
            return late or []

        for batch in grouped(self.comparison.videos(), VIDEOS_AHEAD):
            owners.update(entry["userId"] for entry in batch if "userId" in entry)
            self._await_stream(list(chain.from_iterable(map_threads(compare, _ids(batch), THREADS))))
            viewed = self.views.viewed(_ids(batch))
            map_threads(partial(self._try_compare, "views", self._compare_views), viewed, THREADS)

        tags: Counter[str] = Counter()
        service: Counter[str] = Counter()
        service_items = self.comparison.service_items()
        owners.update(entry["relId"] for entry in self.comparison.listed(single_partition(USERS)))
        for owner in sorted(owners):
            counts = self._try_compare("user", self._compare_user, owner) or UserCounts()
            tags.update(counts.tags)
            service.update(counts.service)
            self._summary.users += 1
            progress(self._summary)

        stored = {entry["relId"]: int(entry["relSort"]) for entry in self.comparison.listed(single_partition(TAGS))}
        for tag in sorted(tags.keys() | stored.keys()):
            if tags[tag] != stored.get(tag, 0):
                self._try_compare("tag-count", self._compare_tag, tag)
            self._summary.tags += 1
            progress(self._summary)
        self._compare_service(service_items, service)
        return self._summary

    def store_report(self) -> None:
        """Store the result of the last run. Administrators see it in `GET /v1/operations`.

        The newest report replaces earlier ones. Raises Unavailable.
        """
        outcomes = {outcome: count for outcome, count in self._summary.outcomes.items() if count}
        item = {
            **COMPARISON_REPORT.key(),
            "at": self._now(),
            "repairs": self._repairs,
            "outcomes": outcomes,
            "findings": self._findings,
            "schemaVersion": SCHEMA_VERSION,
        }
        self.table.write(self.table.put(item))

    def _try_compare(self, kind: Kind, compare: Callable[[str], _Found], id_: str) -> _Found | None:
        """Call `compare` with an id, and return the result.

        If `compare` raises an error, report the item as unreadable and return `None`.

        Raises Unavailable if the table is unavailable.
        """
        try:
            return compare(id_)
        except Unavailable:
            raise
        except Exception as error:
            # Any error, because an item may have any defect, and the run must compare all other items.
            self._record(kind, id_, Difference({}, {"error": f"{type(error).__name__}: {error}"}), "unreadable")
            return None

    def _examine(self, kind: Kind, id_: str, look: _Look, repair: _Repair | None, *, at_once: bool = False) -> None:
        """Call `look` until it returns `None`, or the same difference twice in a row. Then repair or report the
        difference.

        With `at_once`, the first difference suffices. If `repair` is `None`, the difference is only reported. After
        MAX_COMPARISONS calls, the item is reported as busy.
        """
        repairs = self._repairs and repair
        previous: Difference | None = None
        for attempt in range(MAX_COMPARISONS):
            if attempt:
                self._sleep(SECONDS_BETWEEN)
            try:
                difference = look()
                if difference is None:
                    return
                if at_once or difference == previous:
                    if repairs:
                        repairs(id_, difference)
                    self._record(kind, id_, difference, "repaired" if repairs else "found")
                    return
                previous = difference
            except (ConcurrentChange, ConditionFailed, Conflict, NotFound):
                previous = None
        self._record(kind, id_, previous or Difference({}, {}), "busy")

    def _record(self, kind: Kind, id_: str, difference: Difference, outcome: Outcome, *, recent: bool = False) -> None:
        with self._lock:
            self._summary.outcomes[outcome] += 1
            self._summary.recent += recent
            if len(self._findings) < MAX_REPORTED:
                self._findings.append({"kind": kind, "id": id_, "outcome": outcome})
            self._report(Discrepancy(kind, id_, difference.expected, difference.found, outcome))

    # Videos and their items -------------------------------------------------------------------------------------

    def _compare_video(self, video_id: str) -> list[_Recheck]:
        """Compare the data of a video, except its views.

        Return the differences that a stream consumer may still correct.
        """
        family = self.comparison.family(video_id)
        late = []
        # Index entries and the MARKER item are updated some seconds late, which is not a finding. A run that repairs
        # updates them now. This is always correct, and faster than a wait.
        if self._repairs:
            self._examine_entries(family)
            self._examine(
                "marker",
                video_id,
                partial(self._look, self.comparison.marker, video_id),
                self._repair_marker,
                at_once=True,
            )
        else:
            following: tuple[tuple[Kind, _Compare], ...] = (
                ("entries", self.comparison.entries),
                ("marker", self.comparison.marker),
            )
            differences = [(kind, compare, compare(family)) for kind, compare in following]
            late = [
                _Recheck(kind, video_id, compare, difference) for kind, compare, difference in differences if difference
            ]
        if self.comparison.reservations(family):
            look = partial(self._look, self.comparison.reservations, video_id)
            self._examine("reservations", video_id, look, self._repair_reservations)
        return late + self._late_ratings(family)

    def _late_ratings(self, family: Family) -> list[_Recheck]:
        """Compare the video's rating totals. Return a list with the difference to compare again, or an empty list."""
        compare = self.comparison.ratings
        try:
            difference = compare(family)
        except ConcurrentChange:
            return [_Recheck("ratings", family.id, compare, None)]
        return [_Recheck("ratings", family.id, compare, difference)] if difference else []

    def _examine_entries(self, family: Family) -> None:
        look = partial(self._look, self.comparison.entries, family.id)
        if self.comparison.entries(family):
            self._examine("entries", family.id, look, self._repair_entries, at_once=True)

    def _await_stream(self, late: Sequence[_Recheck]) -> None:
        """Wait for the stream, and compare again, until each difference has disappeared or was found twice in a row.

        After MAX_COMPARISONS comparisons, reports the remaining differences as busy.
        """
        for _ in range(1, MAX_COMPARISONS):
            if not late:
                return
            if self._waits < MAX_WAITS or self._repairs:
                self._waits += 1
                self._sleep(SECONDS_FOR_STREAM)
            late = [moved for moved in map_threads(self._recheck_one, late, THREADS) if moved]
        for moving in late:
            self._record(moving.kind, moving.id, moving.difference or Difference({}, {}), "busy")

    def _recheck_one(self, late: _Recheck) -> _Recheck | None:
        return self._try_compare(late.kind, lambda _: self._recheck(late), late.id)

    def _recheck(self, late: _Recheck) -> _Recheck | None:
        """Compare the data again, and repair or report the difference if it is unchanged.

        Returns `None` if no further comparison is necessary; otherwise the new difference, to compare again.
        """
        family = self.comparison.family(late.id)
        try:
            difference = late.compare(family)
            if difference == late.difference and difference is not None and self._repairs:
                self._repair_ratings(late.id, difference)
                self._record(late.kind, late.id, difference, "repaired")
                return None
        except (ConcurrentChange, ConditionFailed, Conflict):
            return replace(late, difference=None)
        if difference is not None and difference != late.difference:
            return replace(late, difference=difference)
        if difference is not None:
            changed = family.video.get("updatedAt", 0) if family.video else 0
            self._record(late.kind, late.id, difference, "found", recent=changed > self._now() - RECENTLY)
        return None

    def _look(self, compare: _Compare, video_id: str) -> Difference | None:
        return compare(self.comparison.family(video_id))

    def _repair_entries(self, video_id: str, _: Difference) -> None:
        self.mover.update_entries(video_id, self._now())

    def _repair_reservations(self, video_id: str, _: Difference) -> None:
        """Reserve the video's unique values.

        Raises Conflict if another video has one of them, and ConcurrentChange if the video has changed.
        """
        video = self.comparison.family(video_id).video
        if video is None:
            raise ConcurrentChange
        move = ReservationMove(self.table, {}, video, {})
        same = self.table.check(key_of(video), condition=unchanged(video))

        def attempt(_: Item | None) -> None:
            try:
                self.table.write_all([same, *move.writes()])
            except ConditionFailed as failure:
                if failure.position == 0:
                    raise ConcurrentChange from failure
                move.resolve(failure, failure.position - 1, self._now())
                raise

        retry_on_conflict(attempt, "the video")

    def _repair_marker(self, video_id: str, _: Difference) -> None:
        try:
            self.aggregates.settle([video_id], self._now())
        except Unavailable as error:  # the table is busy, perhaps with other repairs: compare again
            raise ConcurrentChange from error

    def _repair_ratings(self, video_id: str, difference: Difference) -> None:
        change = addition(video_id, _missing(difference), RECONCILE, self._now())
        self._write(RATING_TOTALS.key(videoId=video_id), change, difference)
        self.sort_entries.place_rating(video_id, self._now())

    def _compare_views(self, video_id: str) -> None:
        """Compare the view data of a video, and report the differences.

        A run with repairs also repairs the differences that are certainly errors. It never repairs a difference that
        may be transient.
        """
        marked, stored = self.views.read_marked(video_id), self.views.read_stored(video_id)
        if self.views.find_errors(stored):
            self._examine(
                "views",
                video_id,
                lambda: self.views.find_errors(self.views.read_stored(video_id)),
                lambda id_, _: self.views.repair(id_),
            )
        if self.views.find_uncertain(stored, marked):
            self._examine(
                "views", video_id, lambda: self.views.find_uncertain(self.views.read_stored(video_id), marked), None
            )

    # Totals -----------------------------------------------------------------------------------------------------

    def _compare_user(self, user_id: str) -> UserCounts:
        """Compare the totals of a user and of the user's folders with the user's videos.

        Return the amounts that these videos contribute to the totals of tags, folders and the service.
        """
        counts = UserCounts()

        def settle(video_ids: Sequence[str]) -> None:
            self._await_stream([late for video_id in video_ids for late in self._compare_video(video_id)])

        look = partial(self.comparison.user, user_id, counts, settle)
        self._examine("user", user_id, look, self._repair_user)
        self._try_compare("folder", lambda _: self._compare_folders(user_id, counts.folders, settle), user_id)
        return counts

    def _compare_service(self, stored: Sequence[Item], sums: Mapping[str, int]) -> None:
        """Compare `stored`, the totals of all videos, with `sums`. The caller must read `stored` before it computes
        `sums`.

        Only a run that reads all videos, and during which no video changes, can compare these totals.
        """
        try:
            if self._summary.outcomes["unreadable"]:
                raise ConcurrentChange
            difference = self.comparison.service(stored, sums)
            if difference is None:
                return
            if self._repairs:
                self._repair_service(stored, difference)
        except (ConcurrentChange, ConditionFailed):
            self._summary.is_service_compared = False
            return
        self._record("service", "all", difference, "repaired" if self._repairs else "found")

    def _repair_service(self, stored: Sequence[Item], difference: Difference) -> None:
        """Add the missing amounts to the first item of `stored`, on condition that no item of `stored` has changed."""
        writes = [
            self.table.check(SERVICE_TOTALS.key(shard=shard), condition=_unmoved(item.get("version")))
            for shard, item in enumerate(stored)
        ]
        change = service_addition(_missing(difference), RECONCILE, self._now())
        first = SERVICE_TOTALS.key(shard=0)
        writes[0] = self.table.update(first, change, condition=_unmoved(stored[0].get("version")))
        self.table.write_all(writes)

    def _compare_folders(
        self, user_id: str, folders: Counter[tuple[str, str]], settle: Callable[[Sequence[str]], None]
    ) -> None:
        """Compare the counts of a user's folders with `folders`, the counts of the user's videos by path and name."""
        stored = self.comparison.folders(user_id)
        counts = folders.keys() | stored.keys()
        for path in sorted({path for path, name in counts if folders[path, name] != stored[path, name]}):
            look = partial(self.comparison.folder, user_id, path, settle)
            self._examine("folder", f"{user_id}/{path}", look, partial(self._repair_folder, user_id, path))

    def _repair_folder(self, user_id: str, path: str, _: str, difference: Difference) -> None:
        change = folder_addition(user_id, path, _missing(difference), RECONCILE, self._now())
        self._write(folder_count_key(user_id, path), change, difference)

    def _repair_user(self, user_id: str, difference: Difference) -> None:
        change = user_addition(user_id, _missing(difference), RECONCILE, self._now())
        self._write(PROFILE.key(userId=user_id), change, difference)

    def _compare_tag(self, tag: str) -> None:
        self._examine("tag-count", tag, partial(self.comparison.tag_count, tag), self._repair_tag_count)

    def _repair_tag_count(self, tag: str, difference: Difference) -> None:
        change = tag_addition(tag, _missing(difference)["count"], RECONCILE, self._now())
        self._write(TAG_COUNT.key(tag=tag), change, difference)

    def _write(self, key: Key, change: Expression, difference: Difference) -> None:
        """Apply `change` to a total, on condition that the total is unchanged since the comparison.

        Raises ConditionFailed if the total has changed.
        """
        unmoved = _unmoved(difference.version)
        self.table.write(self.table.update(key, change, condition=unmoved))

    def _now(self) -> int:
        return int(self._clock())


def _ids(entries: Sequence[Item]) -> list[str]:
    return [entry["relId"] for entry in entries]


def _unmoved(version: int | str | None) -> Expression:
    """Return the condition that a total has this version. If `version` is `None`, the condition is that the total has
    no version, or does not exist."""
    if version is None:
        return Expression.of("attribute_not_exists(#version)")
    return at_version({"version": version})


def _missing(difference: Difference) -> dict[str, int]:
    """Return the amounts, by name, that must be added to the stored values to reach the expected values."""
    return {name: value - difference.found[name] for name, value in difference.expected.items()}
