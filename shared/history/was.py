"""A video as it was: the present one, with the changes of the trail taken back one after another.

Every version of a video has its entry, and an entry says what the change left behind. So a reader knows whether it has all
of them: what is missing is either not in the trail yet, or gone for good, and neither is guessed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.changes import changes_between, cut_fields, plain, taken_back
from shared.core.errors import Gone, NotFound, TrailBehind
from shared.history.entries import DIGEST, SINCE, STAMPED, STAMPS, UNKNOWN
from shared.history.trail import AuditStore
from shared.schema import VIDEO
from shared.videos.access import is_purged, owned_by
from shared.videos.documents import FIELDS, MADE_IN, MAPS, audited, digest
from shared.videos.documents import document as video_document

STREAM_SECONDS = 24 * 3600
"""How long the stream keeps a change: what the trail lacks after that, it will never have."""

NEVER_KEPT = ("viewCount",)
"""Fields of a document that no version has: views are counted apart."""

REMOVALS = ("expired", "removed")
"""The actions that end what is told of a video; what comes before was another one with its id."""


@dataclass(frozen=True)
class Version:
    """A video as it was from one change to the next: a write of the service, which made a version, or an edit behind its
    back, which made none.
    """

    number: int
    at: int
    """The epoch second from which it was so."""
    state: Item
    """What the trail follows of the stored item, as plain values: sets are sorted lists, what was cut is a `Cut`."""
    stamps: Item
    """Its `updatedAt` and `schemaVersion`."""
    taken_back: Sequence[Item] = ()
    """The entries that led back to it, the newest first, and maybe more."""
    steps: int = 0
    """How many of them did."""
    digest: str | None = None
    """What the entry of the change says of the state; None: not to be compared."""

    @property
    def later(self) -> tuple[Item, ...]:
        """The entries of all later changes, the newest first."""
        return tuple(self.taken_back[: self.steps])

    def document(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """The document as GET showed it to the owner, or only these fields of it, with `without`: the names of those that
        the trail does not keep. Raises Gone, naming the fields, if any of them was cut.
        """
        wanted = fields or FIELDS
        item: Item = {name: {} for name in MAPS} | self.state | self.stamps | {"version": self.number}
        needed = [*wanted, *(MADE_IN[name] for name in wanted if name in MADE_IN)]
        require_known({name: item[name] for name in needed if name in item})
        whole = video_document({name: value for name, value in item.items() if not any(cut_fields(value))})
        shown = {name: whole[name] for name in fields or whole if name in whole}
        return shown | {"without": [name for name in NEVER_KEPT if name in wanted]}

    def proved(self) -> "Version":
        """The version itself; raises Gone if it is not what its change left behind, as the trail lacks something later."""
        if self.digest and not any(cut_fields(self.state)) and digest(self.state) != self.digest:
            raise Gone(
                f"A change after version {self.number} is not in the audit trail, so nobody knows what that version was."
            )
        return self


class Past:
    """Reads what videos were, for their owners and admins. Methods raise NotFound, and Forbidden, as a change of the video
    would; Gone for what nobody knows any more; TrailBehind while the newest changes are not in the trail; and LimitReached.
    """

    def __init__(self, videos: Table, trail: AuditStore) -> None:
        self.videos = videos
        self.trail = trail

    def read(
        self,
        video_id: str,
        caller: Caller,
        now: int,
        *,
        version: int | None = None,
        as_of: int = 0,
        fields: Sequence[str] = (),
    ) -> tuple[dict[str, Any], int]:
        """The document of a version, or else of the one that there was `as_of` a time (epoch seconds), and its number.

        A GetItem, and a Query for each 1 MB of the trail since then, all consistent.
        """
        past = self._versions(video_id, caller, now)
        then = at_time(past, as_of) if version is None else at_version(past, version)
        return then.document(fields), then.number

    def changes(self, video_id: str, caller: Caller, now: int, start: int, end: int | None) -> dict[str, Any]:
        """What changed from one version to another, or to the present one, as the trail names the fields."""
        past = self._versions(video_id, caller, now)
        present = next(past)
        past = chain([present], past)
        end = present.number if end is None else end
        newer = at_version(past, max(start, end))
        older = newer if start == end else at_version(past, min(start, end))
        before, after = (older, newer) if start < end else (newer, older)
        changes = list(changes_between(before.state, after.state, always=MAPS))
        require_known(*changes)
        return {"videoId": video_id, "from": start, "to": end, "changes": changes}

    def _versions(self, video_id: str, caller: Caller, now: int) -> Iterator[Version]:
        item = self.videos.get(VIDEO.key(videoId=video_id), consistent=True)
        if item is None or is_purged(item, now):
            self._require_never(video_id, caller, now)
        return versions(owned_by(item, caller, now), self.trail.back(video_id, now), now)

    def _require_never(self, video_id: str, caller: Caller, now: int) -> None:
        """Raise Gone if the caller had a video of this id, or may see all; else nobody learns whether there was one."""
        owner = None if caller.is_admin else caller.subject
        for entry in self.trail.of_video(video_id, now, owner=owner, limit=1).items:
            raise Gone(f"The video was removed; the last that is known of it is of {entry['at'] // 1000}.")


def versions(item: Item, entries: Iterable[Item], now: int) -> Iterator[Version]:
    """The versions of a video, from the present one back to its first; one that was edited behind the service's back comes
    once for each of its states.

    `item` is the video as a consistent read has it, `entries` are those of the video that were read after that, the newest
    first; entries that came in between are passed over. Raises TrailBehind while an entry may still come, and Gone when it
    never will.
    """
    number = item["version"]
    state = plain(audited(item)) | {"videoId": item["videoId"]}
    known = {name: item[name] for name in STAMPED if name in item}
    later: list[Item] = []
    written = item.get("updatedAt", 0)
    at = now
    for entry in entries:
        if entry["action"] in REMOVALS:
            break
        made, stamps = entry.get("version", 0), entry[STAMPS]
        if not later:
            is_edited, is_upgraded = made == number, stamps.get("schemaVersion") != item.get("schemaVersion")
            if stamps.get("updatedAt") == written and (is_edited or is_upgraded):
                written = now  # the time of an earlier change, which this one kept: so nobody knows how new it is
            if made > number or (made == number and entry[DIGEST] not in (None, digest(state))):
                continue
        if made != number:
            break
        at = entry[SINCE]
        yield Version(made, at, state, stamps if later else known, later, len(later), entry[DIGEST])
        if entry["action"] == "created":
            return
        if "omitted" in entry:
            raise Gone(f"The change at {at} was larger than the trail can keep; nothing before it is known.")
        for change in reversed(entry["changes"]):
            state = taken_back(state, change)
        later.append(entry)
        # An edit behind the service's back made no version of its own.
        number = made if entry["by"] == UNKNOWN else made - 1
    if later:
        # What came later is there, and the stream keeps the order of one item's changes.
        raise Gone(f"The audit trail has no change of version {number} any more; it goes back to the time {at}.")
    yield Version(number, now, state, known)
    if now - written < STREAM_SECONDS:
        raise TrailBehind
    raise Gone(f"The audit trail has no change of version {number} any more, the present one, which is of {written}.")


def at_version(versions: Iterable[Version], number: int) -> Version:
    """The version of this number as it was in the end; raises NotFound when there was none, Gone, and what
    `versions` raises.
    """
    for version in versions:
        if version.number == number:
            return version.proved()
        if version.number < number:
            break
    raise NotFound(f"The video never had a version {number}.")


def at_time(versions: Iterable[Version], time: int) -> Version:
    """The version that there was at the end of a second; raises NotFound when there was none yet, Gone, and what
    `versions` raises.
    """
    first = None
    for version in versions:
        if version.at <= time:
            return version.proved()
        first = version
    since = f" It is there since {first.at}." if first else ""
    raise NotFound(f"There was no such video at that time.{since}")


def require_known(*values: Any) -> None:
    """Raise Gone, naming the fields, if anything in these values was cut."""
    fields = dict.fromkeys(field for value in values for field in cut_fields(value))
    if fields:
        raise Gone(
            f"The audit trail keeps only the beginning of what was at {', '.join(fields)}.",
            errors=[{"pointer": field, "detail": "was too large for the trail"} for field in fields],
        )
