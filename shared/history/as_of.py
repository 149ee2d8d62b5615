"""Earlier versions of a video, reconstructed from the current item by reverting the changes in the audit trail.

The audit entry of each version has a digest of the video's state. The digest shows whether entries are missing. A
missing entry is either not in the trail yet (TrailBehind) or lost (Gone). Methods raise these errors instead of
guessing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.changes import changes_between, revert_change, to_json_value, truncated_fields
from shared.core.errors import Gone, NotFound, TrailBehind
from shared.history.entries import DIGEST, SINCE, STAMPED, STAMPS, UNKNOWN
from shared.history.trail import AuditStore
from shared.schema import VIDEO
from shared.videos.access import is_purged, require_owned
from shared.videos.documents import FIELDS, JOB_ATTRIBUTES, MAPS, audited, digest
from shared.videos.documents import document as video_document

if TYPE_CHECKING:
    from shared.entities import Video

STREAM_SECONDS = 24 * 3600
"""Seconds for which the table's stream retains records. An entry that is missing after this time will never arrive."""

UNVERSIONED = ("viewCount",)
"""Fields of a video's document that documents of earlier versions lack, because the audit trail does not contain
views."""

REMOVALS = ("expired", "removed")
"""Actions after which the video no longer exists. Older audit entries belong to an earlier video with the same id."""


@dataclass(frozen=True)
class PastVersion:
    """State of a video between two changes.

    A write by the service increments the version. A direct edit of the item in the table does not increment it, so one
    version can have several states.
    """

    number: int
    """Number of the version."""
    at: int
    """First epoch second in which the video had this state."""
    state: Item
    """Audited attributes as plain values: sets are sorted lists, and a truncated value is a `TruncatedValue`."""
    stamps: Item
    """The attributes `updatedAt` and `schemaVersion` of the version."""
    reverted: Sequence[Item] = ()
    """Audit entries that were reverted to compute this version and earlier versions, newest first. All versions share
    this list. This version needs only the first `steps` entries."""
    steps: int = 0
    """Number of audit entries that were reverted to compute this state."""
    digest: str | None = None
    """Digest that the state must have. The audit entry of the change that led to this state contains the digest.
    `None` if the state cannot be checked."""

    @property
    def later(self) -> tuple[Item, ...]:
        """Audit entries of all later changes, newest first."""
        return tuple(self.reverted[: self.steps])

    def document(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the video's document of this version, as GET returned it to the owner, or only the given fields.

        The document's field `without` lists requested fields that the trail does not store. Raises Gone if a requested
        field is truncated in the trail.
        """
        names = fields or FIELDS
        item: Item = {name: {} for name in MAPS} | self.state | self.stamps | {"version": self.number}
        needed = [*names, *(JOB_ATTRIBUTES[name] for name in names if name in JOB_ATTRIBUTES)]
        require_untruncated({name: item[name] for name in needed if name in item})
        whole = video_document({name: value for name, value in item.items() if not any(truncated_fields(value))})
        shown = {name: whole[name] for name in fields or whole if name in whole}
        return shown | {"without": [name for name in UNVERSIONED if name in names]}

    def proved(self) -> "PastVersion":
        """Check the state, and return this version. Raises Gone if the state does not match the digest.

        The state does not match if the trail lacks a later entry.
        """
        if self.digest and not any(truncated_fields(self.state)) and digest(self.state) != self.digest:
            raise Gone(
                f"The audit trail lacks a change after version {self.number}, so that version is unknown. Request a later version."
            )
        return self


class PastVersions:
    """Reader of earlier versions of videos, for owners and admins.

    Methods raise NotFound and Forbidden if the caller may not change the video. They raise Gone if the version cannot
    be reconstructed, and TrailBehind while the audit trail lacks its newest entries. They raise LimitReached if the
    trail since the version is too long.
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
        """Return the document of one version of a video, and the number of this version.

        Selects `version`, or the version that was current at `as_of` (epoch seconds) if `version` is `None`.

        Costs a GetItem, and a Query for each 1 MB of the trail since that version. All reads are consistent.
        """
        past = self._versions(video_id, caller, now)
        then = find_version_at(past, as_of) if version is None else find_version(past, version)
        return then.document(fields), then.number

    def changes(self, video_id: str, caller: Caller, now: int, start: int, end: int | None) -> dict[str, Any]:
        """Return the differences between the versions `start` and `end`, in the form of audit entries.

        If `end` is `None`, the current version is used. The result has `videoId`, `from`, `to` and `changes`.
        """
        past = self._versions(video_id, caller, now)
        present = next(past)
        past = chain([present], past)
        end = present.number if end is None else end
        newer = find_version(past, max(start, end))
        older = newer if start == end else find_version(past, min(start, end))
        before, after = (older, newer) if start < end else (newer, older)
        changes = list(changes_between(before.state, after.state, always=MAPS))
        require_untruncated(*changes)
        return {"videoId": video_id, "from": start, "to": end, "changes": changes}

    def _versions(self, video_id: str, caller: Caller, now: int) -> Iterator[PastVersion]:
        item = self.videos.get(VIDEO.key(videoId=video_id), consistent=True)
        if item is None or is_purged(item, now):
            self._require_never(video_id, caller, now)
        return versions(require_owned(item, caller, now), self.trail.iterate_back(video_id, now), now)

    def _require_never(self, video_id: str, caller: Caller, now: int) -> None:
        """Raise Gone if a video with this id was removed, and the caller may see one of its audit entries.

        Owners may see entries of their videos, and admins all entries. Other callers get the same error as for an id
        that was never used.
        """
        owner = None if caller.is_admin else caller.subject
        for entry in self.trail.list_for_video(video_id, now, owner=owner, limit=1).items:
            raise Gone(
                f"The video was removed. The time of its last audit entry is {entry['at'] // 1000}, in epoch seconds."
            )


def versions(item: "Video", entries: Iterable[Item], now: int) -> Iterator[PastVersion]:
    """Yield the versions of a video, newest first, beginning with the current version.

    A direct edit of the item in the table does not increment the version, so one version can have several states. Such
    a version is yielded once for each state.

    `item` is the video from a consistent read. `entries` are the video's audit entries, newest first. The caller must
    read them after `item`. Entries newer than `item` are skipped. `now` is in epoch seconds. If an entry is missing,
    raises TrailBehind while the entry may still arrive, and Gone after that.
    """
    number = item["version"]
    state = to_json_value(audited(item)) | {"videoId": item["videoId"]}
    stamps_of_present = {name: value for name, value in item.items() if name in STAMPED}
    later: list[Item] = []
    written = item.get("updatedAt", 0)
    at = now
    for entry in entries:
        if entry["action"] in REMOVALS:
            break
        version, stamps = entry.get("version", 0), entry[STAMPS]
        if not later:
            is_edited, is_upgraded = version == number, stamps.get("schemaVersion") != item.get("schemaVersion")
            if stamps.get("updatedAt") == written and (is_edited or is_upgraded):
                written = now  # the change did not set `updatedAt`, so the time of the change is unknown
            if version > number or (version == number and entry[DIGEST] not in (None, digest(state))):
                continue
        if version != number:
            break
        at = entry[SINCE]
        yield PastVersion(version, at, state, stamps if later else stamps_of_present, later, len(later), entry[DIGEST])
        if entry["action"] == "created":
            return
        if "omitted" in entry:
            raise Gone(f"The change at {at} was too large for the audit trail. Request a later version.")
        for change in reversed(entry["changes"]):
            state = revert_change(state, change)
        later.append(entry)
        # A direct edit does not increment the version.
        number = version if entry["by"] == UNKNOWN else version - 1
    if later:
        # Later entries exist, and the stream preserves the order of one item's changes. So the missing entry has
        # expired.
        raise Gone(f"The audit entry of version {number} has expired. Request a version since the time {at}.")
    yield PastVersion(number, now, state, stamps_of_present)
    if now - written < STREAM_SECONDS:
        raise TrailBehind
    raise Gone(f"The audit entry of version {number}, the current version since {written}, has expired.")


def find_version(versions: Iterable[PastVersion], number: int) -> PastVersion:
    """Return the last state of the version with this number. `versions` are newest first.

    Raises NotFound if the version never existed, Gone if the state does not match its digest, and the errors of
    `versions`.
    """
    for version in versions:
        if version.number == number:
            return version.proved()
        if version.number < number:
            break
    raise NotFound(f"The video has no version {number}.")


def find_version_at(versions: Iterable[PastVersion], time: int) -> PastVersion:
    """Return the version that existed at the end of the epoch second `time`. `versions` are newest first.

    Raises NotFound if the video did not exist yet, Gone if the state does not match its digest, and the errors of
    `versions`.
    """
    first = None
    for version in versions:
        if version.at <= time:
            return version.proved()
        first = version
    since = f" It exists since {first.at}." if first else ""
    raise NotFound(f"The video did not exist at that time.{since}")


def require_untruncated(*values: Any) -> None:
    """Raise Gone if a value contains a truncated field. The error names all truncated fields."""
    fields = dict.fromkeys(field for value in values for field in truncated_fields(value))
    if fields:
        raise Gone(
            f"The audit trail stores only the beginning of {', '.join(fields)}. Request other fields.",
            errors=[{"pointer": field, "detail": "was too large for the audit trail"} for field in fields],
        )
