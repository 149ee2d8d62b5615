"""Concurrent reverts of the parts of a change set. A part has the entries about one video, related item or playlist."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.errors import TRANSIENT_ERRORS, Gone, InternalError, NotFound, ServiceError, Unavailable
from shared.core.telemetry import service_logger
from shared.history.item_reverts import REVERTS_BY_ENTITY, ItemReverts
from shared.history.later_entries import LaterEntries, subject_of
from shared.history.outcome import RevertResult
from shared.history.playlist_reverts import PlaylistReverts
from shared.history.revert_runs import RevertRequest
from shared.history.trail import AuditStore
from shared.history.video_reverts import VideoReverts
from shared.processing.daily_quota import QuotaStore
from shared.schema import PARTITION_KEY, PLAYLIST, SORT_KEY, TTL_ATTRIBUTE, VIDEO
from shared.threads import map_threads
from shared.videos.access import is_purged
from shared.videos.store import VideoStore

CONCURRENT_PARTS = 8
"""Default number of videos and playlists that are reverted concurrently."""
MAX_NAMED = 100
"""Maximum number of reverted fields, and of skipped fields, in the report of one part."""

InTime = Callable[[], bool]
"""Function that returns whether there is time to revert another part."""

RevertOutcome = RevertResult | ServiceError
"""Outcome for one part of a change set: a result, or one of TRANSIENT_ERRORS, after which a retry may succeed."""


@dataclass(frozen=True)
class ChangeSetPart:
    """Audit entries on one page of a change set, all about the same video, related item or playlist."""

    entries: tuple[Item, ...]
    """Audit entries, newest first."""

    @property
    def entity(self) -> str:
        """Kind of the item, such as `video`."""
        return str(self.entries[0]["entity"])

    @property
    def partition(self) -> str:
        """Partition key of the audit entries. It is the same for a video and all its related items."""
        return str(self.entries[0][PARTITION_KEY])

    @property
    def names(self) -> dict[str, Any]:
        """Attributes that identify the item in API responses."""
        return subject_of(self.entries[0])

    @property
    def is_created(self) -> bool:
        """Whether the change set created the item."""
        return bool(self.entries[-1]["action"] == "created")

    @property
    def rank(self) -> int:
        """Order in which the parts of one video are reverted: -1 first, 1 last.

        Related items cannot be changed while their video is deleted. Therefore a video is reverted first if its revert
        may restore it, and last if its revert may delete it.
        """
        if self.entity != "video":
            return 0
        return 1 if any(entry["action"] in ("created", "restored") for entry in self.entries) else -1

    def report(self, outcome: RevertResult) -> dict[str, Any]:
        """Return the outcome and the attributes that identify the item, in the form of API responses.

        The result contains at most MAX_NAMED reverted fields and MAX_NAMED skipped fields. `omitted` is the number of
        further fields.
        """
        document = outcome.document()
        for name in ("fields", "skipped"):
            document[name] = document[name][:MAX_NAMED]
        omitted = max(0, len(outcome.fields) - MAX_NAMED) + max(0, len(outcome.skipped) - MAX_NAMED)
        return self.names | document | ({"omitted": omitted} if omitted else {})


def group_into_parts(entries: Iterable[Item]) -> list[ChangeSetPart]:
    """Group the audit entries of a page by item. `entries` are newest first within each item."""
    parts: dict[tuple[object, ...], list[Item]] = {}
    for entry in entries:
        parts.setdefault(tuple(subject_of(entry).items()), []).append(entry)
    return [ChangeSetPart(tuple(some)) for some in parts.values()]


class PartReverts:
    """Service that reverts the parts of change sets. A part has the audit entries about one item.

    At most `threads` videos and playlists are reverted concurrently; `None` means CONCURRENT_PARTS.
    """

    def __init__(self, table: Table, trail: AuditStore, quota: QuotaStore, *, threads: int | None = None) -> None:
        self._threads = threads
        self._table = table
        self._trail = trail
        self._videos = VideoReverts(VideoStore(table), trail, quota)
        self._playlists = PlaylistReverts(table)
        self._items: Mapping[str, ItemReverts] = {entity: kind(table) for entity, kind in REVERTS_BY_ENTITY.items()}

    def revert(
        self, parts: Sequence[ChangeSetPart], request: RevertRequest, now: int, in_time: InTime
    ) -> list[RevertOutcome]:
        """Revert parts, and return their outcomes in the same order. `now` is in epoch seconds.

        Parts of one video are reverted one after the other, in the order of their rank. Different videos and playlists
        are reverted concurrently. After `in_time` returns false, the remaining parts are not reverted, and their
        outcome is Unavailable.
        """
        groups: dict[str, dict[int, ChangeSetPart]] = {}
        for index, part in enumerate(parts):
            groups.setdefault(part.partition, {})[index] = part
        outcomes: dict[int, RevertOutcome] = {}
        in_order = partial(self._revert_in_order, request=request, now=now, in_time=in_time)
        for done in map_threads(in_order, groups.values(), self._threads or CONCURRENT_PARTS):
            outcomes |= done
        return [outcomes[index] for index in range(len(parts))]

    def _revert_in_order(
        self, parts: Mapping[int, ChangeSetPart], request: RevertRequest, now: int, in_time: InTime
    ) -> dict[int, RevertOutcome]:
        """Revert the parts of one video or playlist in the order of their rank.

        If a part has a transient error, the parts with a higher rank are not attempted. Their outcome is the same
        error.
        """
        first = min((part.entries[-1] for part in parts.values()), key=itemgetter(SORT_KEY))
        later = LaterEntries(self._trail, first, now)
        outcomes: dict[int, RevertOutcome] = {}
        waits: dict[int, ServiceError] = {}
        for index, part in sorted(parts.items(), key=lambda numbered: numbered[1].rank):
            blocked_by = next((error for rank, error in waits.items() if rank < part.rank), None)
            outcome = blocked_by or self._try_part(part, request, now, in_time, later)
            if isinstance(outcome, ServiceError):
                waits.setdefault(part.rank, outcome)
            elif request.dry_run and part.entity == "video" and "/status" in outcome.fields:
                later.would_restore_video = True
            outcomes[index] = outcome
        return outcomes

    def _try_part(
        self, part: ChangeSetPart, request: RevertRequest, now: int, in_time: InTime, later: LaterEntries
    ) -> RevertOutcome:
        """Revert one part of a change set, and return the outcome. If an unexpected exception occurs, log it
        and return a failure.

        Never raises an error, because the other parts must not be affected.
        """
        if not in_time():
            return Unavailable("Time ran out before this part, so nothing of it was changed.")
        try:
            return self._revert_part(part, request, now, later)
        except TRANSIENT_ERRORS as error:
            return error
        except (Gone, NotFound) as error:
            is_as_before = part.is_created and self._is_removed(part, now)
            return RevertResult("unchanged") if is_as_before else RevertResult.failed(error)
        except ServiceError as error:
            return RevertResult.failed(error)
        except Exception as error:
            service_logger().exception("change set part failed", exc_info=error, extra=part.names)
            return RevertResult.failed(
                InternalError("The service failed. The log has the error under the id of this request.")
            )

    def _is_removed(self, part: ChangeSetPart, now: int) -> bool:
        """Return whether the video or playlist of a part is permanently removed."""
        entry = part.entries[0]
        entity, name = (VIDEO, "videoId") if "videoId" in entry else (PLAYLIST, "playlistId")
        key = entity.key(**{name: entry[name]})
        item = self._table.get(key, attributes=(PARTITION_KEY, TTL_ATTRIBUTE), consistent=True)
        return item is None or is_purged(item, now)

    def _revert_part(self, part: ChangeSetPart, request: RevertRequest, now: int, later: LaterEntries) -> RevertResult:
        if part.entity == "video":
            return self._videos.revert_changes(
                part.entries, request.caller, now, own=request.own, force=request.force, dry_run=request.dry_run
            )
        if part.entity == "playlist":
            return self._playlists.revert(part.entries, request, now, later)
        return self._items[part.entity].revert(part.entries, request, now, later)
