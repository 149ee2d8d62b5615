"""The parts of a change set, each a video, something beside it, or a playlist, and taking them back side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.errors import PASSING, Gone, InternalError, NotFound, ServiceError, Unavailable
from shared.core.telemetry import service_logger
from shared.films.quota import QuotaStore
from shared.history.later import Later, names_of
from shared.history.outcome import Outcome
from shared.history.playlists import PlaylistReverts
from shared.history.relations import KINDS, BesideReverts
from shared.history.reverts import VideoReverts
from shared.history.runs import Wish
from shared.history.trail import AuditStore
from shared.schema import PARTITION_KEY, PLAYLIST, SORT_KEY, TTL_ATTRIBUTE, VIDEO
from shared.threads import map_threads
from shared.videos.access import is_purged
from shared.videos.catalogue import VideoStore

SIDE_BY_SIDE = 8
"""Videos and playlists that are worked on at a time."""
MOST_NAMED = 100
"""Fields that came back, and fields that were left alone, which a report names of one part."""

InTime = Callable[[], bool]
"""Whether there is time for another part."""

Became = Outcome | ServiceError
"""What became of a part; an error is one of PASSING: another try may go well."""


@dataclass(frozen=True)
class Part:
    """What a change set did to one video, one thing beside it, or one playlist, as far as it is on one page."""

    entries: tuple[Item, ...]
    """The newest first."""

    @property
    def entity(self) -> str:
        """Such as `video`."""
        return str(self.entries[0]["entity"])

    @property
    def partition(self) -> str:
        """Of the video or playlist that it is, or belongs to."""
        return str(self.entries[0][PARTITION_KEY])

    @property
    def names(self) -> dict[str, Any]:
        """What it is about, as clients see it."""
        return names_of(self.entries[0])

    @property
    def is_created(self) -> bool:
        """Whether the set created it."""
        return bool(self.entries[-1]["action"] == "created")

    @property
    def rank(self) -> int:
        """When it is taken back among those of its video: -1 first, 1 last.

        What belongs to a video cannot be changed while that is deleted: so a video that may come back goes first, and one
        that may be deleted again goes last.
        """
        if self.entity != "video":
            return 0
        return 1 if any(entry["action"] in ("created", "restored") for entry in self.entries) else -1

    def report(self, outcome: Outcome) -> dict[str, Any]:
        """What became of it, as clients see it."""
        document = outcome.document()
        for name in ("fields", "skipped"):
            document[name] = document[name][:MOST_NAMED]
        omitted = max(0, len(outcome.fields) - MOST_NAMED) + max(0, len(outcome.skipped) - MOST_NAMED)
        return self.names | document | ({"omitted": omitted} if omitted else {})


def parts_of(entries: Iterable[Item]) -> list[Part]:
    """The parts that entries belong to, in the order of their newest entries."""
    parts: dict[tuple[object, ...], list[Item]] = {}
    for entry in entries:
        parts.setdefault(tuple(names_of(entry).items()), []).append(entry)
    return [Part(tuple(some)) for some in parts.values()]


class PartReverts:
    """Takes parts of change sets back."""

    def __init__(self, table: Table, trail: AuditStore, quota: QuotaStore, *, threads: int | None = None) -> None:
        """Work on at most `threads` videos and playlists concurrently; `None` means SIDE_BY_SIDE."""
        self._threads = threads
        self._table = table
        self._trail = trail
        self._videos = VideoReverts(VideoStore(table), trail, quota)
        self._playlists = PlaylistReverts(table)
        self._beside: Mapping[str, BesideReverts] = {entity: kind(table) for entity, kind in KINDS.items()}

    def take_back(self, parts: Sequence[Part], wish: Wish, now: int, in_time: InTime) -> list[Became]:
        """Take parts back, those of one video in their order, others side by side; returns what became of each."""
        groups: dict[str, dict[int, Part]] = {}
        for place, part in enumerate(parts):
            groups.setdefault(part.partition, {})[place] = part
        became: dict[int, Became] = {}
        in_order = partial(self._in_order, wish=wish, now=now, in_time=in_time)
        for done in map_threads(in_order, groups.values(), self._threads or SIDE_BY_SIDE):
            became |= done
        return [became[place] for place in range(len(parts))]

    def _in_order(self, parts: Mapping[int, Part], wish: Wish, now: int, in_time: InTime) -> dict[int, Became]:
        """Take back the parts of one video or playlist. What has to wait keeps back those of a later rank."""
        first = min((part.entries[-1] for part in parts.values()), key=itemgetter(SORT_KEY))
        later = Later(self._trail, first, now)
        became: dict[int, Became] = {}
        waits: dict[int, ServiceError] = {}
        for place, part in sorted(parts.items(), key=lambda numbered: numbered[1].rank):
            kept_back = next((error for rank, error in waits.items() if rank < part.rank), None)
            outcome = kept_back or self._tried(part, wish, now, in_time, later)
            if isinstance(outcome, ServiceError):
                waits.setdefault(part.rank, outcome)
            elif wish.dry_run and part.entity == "video" and "/status" in outcome.fields:
                later.revived = True
            became[place] = outcome
        return became

    def _tried(self, part: Part, wish: Wish, now: int, in_time: InTime, later: Later) -> Became:
        """What became of one part; a bug must not hide what became of the others."""
        if not in_time():
            return Unavailable("There was no time left for this part. Nothing of it was changed; try again.")
        try:
            return self._one(part, wish, now, later)
        except PASSING as error:
            return error
        except (Gone, NotFound) as error:
            is_as_before = part.is_created and self._is_gone(part, now)
            return Outcome("unchanged") if is_as_before else Outcome.failed(error)
        except ServiceError as error:
            return Outcome.failed(error)
        except Exception as error:
            service_logger().exception("a part of a change set failed", exc_info=error, extra=part.names)
            return Outcome.failed(InternalError("The service failed; it has been logged under this request's id."))

    def _is_gone(self, part: Part, now: int) -> bool:
        """Whether the video or playlist that a part is, or belongs to, is removed for good."""
        entry = part.entries[0]
        entity, name = (VIDEO, "videoId") if "videoId" in entry else (PLAYLIST, "playlistId")
        key = entity.key(**{name: entry[name]})
        item = self._table.get(key, attributes=(PARTITION_KEY, TTL_ATTRIBUTE), consistent=True)
        return item is None or is_purged(item, now)

    def _one(self, part: Part, wish: Wish, now: int, later: Later) -> Outcome:
        if part.entity == "video":
            return self._videos.take_back(
                part.entries, wish.caller, now, own=wish.own, force=wish.force, dry_run=wish.dry_run
            )
        if part.entity == "playlist":
            return self._playlists.take_back(part.entries, wish, now, later)
        return self._beside[part.entity].take_back(part.entries, wish, now, later)
