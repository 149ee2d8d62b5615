"""Reverts of videos. A revert restores an earlier version, or undoes the changes that one change set made."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.changes import Change
from shared.core.errors import Gone, NotFound
from shared.history import revert_plan
from shared.history.as_of import find_version, versions
from shared.history.entries import DIGEST
from shared.history.outcome import RevertResult
from shared.history.revert_plan import RevertPlan, SkippedField
from shared.history.trail import AuditStore
from shared.processing.daily_quota import QuotaStore
from shared.schema import CHANGESET, SORT_KEY
from shared.videos.documents import changes
from shared.videos.store import VideoStore
from shared.videos.video import apply_revert, is_writable

if TYPE_CHECKING:
    from shared.entities import Video


@dataclass(frozen=True)
class RevertedVideo:
    """Result of a revert to an earlier version, or of a dry run."""

    document: dict[str, Any]
    """Document of the video after the revert, as GET returns it to the owner, without the view count."""
    changes: list[Change]
    """Changes that the revert wrote, or would write without the dry run, in the form of audit entries."""
    skipped: list[SkippedField]


class VideoReverts:
    """Service that restores an earlier version of a video, or reverts the changes that a change set made to a video.

    If a revert changes the poster's time, a job creates a new poster. The job is charged to the owner's `quota`.
    """

    def __init__(self, videos: VideoStore, trail: AuditStore, quota: QuotaStore) -> None:
        self.videos = videos
        self.trail = trail
        self.quota = quota

    def revert_to_version(
        self,
        video_id: str,
        version: int,
        caller: Caller,
        now: int,
        *,
        fields: Sequence[str] = ("",),
        force: Sequence[str] = (),
        matches: Callable[[int], bool] = lambda version: True,
        dry_run: bool = False,
    ) -> RevertedVideo:
        """Restore an earlier version of a video, except fields that other authors changed later.

        `fields` are JSON Pointers: only values at or below them are restored. Values at or below the pointers in
        `force` are restored even if another author changed them later. `matches` receives the current version, and
        returns whether the caller's If-Match allows the write. `now` is in epoch seconds.

        If another writer changes the video concurrently, the revert is planned and written again. Raises NotFound if
        the video or the version does not exist, and Forbidden if another user owns the video. Raises VersionMismatch if
        `matches` returns false. Raises Gone or TrailBehind if audit entries are missing. Raises IllegalTransition,
        InvalidContent or QuotaExceeded if the change is not allowed.
        """
        applied: list[Change] = []
        skipped: list[SkippedField] = []
        charge = _Charge(self.quota, now, dry_run=dry_run)

        def edit(item: "Video") -> "Video":
            """Plan the revert for the item that this attempt read."""
            back = versions(item, self.trail.iterate_back(video_id, now), now)
            present = next(back)
            then = find_version(chain([present], back), version)
            planned = revert_plan.plan_to_version(
                present.state, then.state, then.later, caller, writable=is_writable, fields=fields, force=force
            )
            edited = charge.edited(item, planned)
            applied[:], skipped[:] = changes(item, edited), planned.skipped
            return edited

        with self._explaining_absence(video_id, caller, now):
            document = self.videos.change(video_id, caller, now, edit, matches=matches, dry_run=dry_run)
        return RevertedVideo(document, applied, skipped)

    def revert_changes(
        self,
        entries: Sequence[Item],
        caller: Caller,
        now: int,
        *,
        own: str,
        force: Sequence[str] = (),
        dry_run: bool = False,
    ) -> RevertResult:
        """Revert the changes that one change set made to a video.

        `entries` are the audit entries of the change set for this video, newest first. `own` is the id of the revert
        run, and the correlation id of the run's writes. If an earlier call with this id has already reverted fields,
        the result also contains these fields.

        Raises ServiceError if the revert fails. The caller may retry after TRANSIENT_ERRORS. After any other error,
        this video cannot be reverted (`RevertResult.failed`).
        """
        video_id, outcome = entries[0]["videoId"], RevertResult("unchanged")
        charge = _Charge(self.quota, now, dry_run=dry_run)

        def edit(item: "Video") -> "Video":
            nonlocal outcome
            later = self._since(item, entries[-1], own, now)
            planned = _without(item, entries, later, own, force)
            edited = charge.edited(item, planned)
            is_done = item.get(UPDATED_FOR) == own or any(entry.get(CHANGESET) == own for entry in later)
            fields = [change["field"] for change in planned.changes] or (planned.already if is_done else [])
            outcome = RevertResult.of(fields, planned.skipped)
            return edited

        with self._explaining_absence(video_id, caller, now):
            self.videos.change(video_id, caller.acting_for(own), now, edit, dry_run=dry_run)
        return outcome

    def _since(self, item: "Video", first: Item, own: str, now: int) -> list[Item]:
        """Return the audit entries of a video since the entry `first`, newest first.

        Raises TrailBehind or Gone if an entry is missing. The entry of the last write may be missing if the run `own`
        made this write.
        """
        read: list[Item] = []
        entries = _noted(self.trail.iterate_back(item["videoId"], now), read)
        base = item
        if item.get(UPDATED_FOR) == own:
            base = item | {"version": item["version"] - 1}
            # The item has the state after the run's write, so it must not be compared with digests of earlier states.
            entries = ({**entry, DIGEST: None} for entry in entries)
        for version in versions(base, entries, now):
            if version.number == first["version"]:
                break  # entries before the change set are not needed
        while not (read and _is_as_old(read[-1], first)) and next(entries, None):
            pass
        return [entry for entry in read if entry[SORT_KEY] >= first[SORT_KEY]]

    @contextmanager
    def _explaining_absence(self, video_id: str, caller: Caller, now: int) -> Iterator[None]:
        """Raise Gone instead of NotFound for a removed video, if the caller was its owner or is an admin."""
        try:
            yield
        except NotFound as error:
            last = next(self.trail.iterate_back(video_id, now), None)
            if last and last["action"] in ("expired", "removed") and caller.owns(last.get("owner", "")):
                at = last["at"] // 1000
                raise Gone(f"The video and its related items were removed at {at}.") from error
            raise


class _Charge:
    """Quota charge for the job that creates a new poster. The quota is charged once, even after several attempts."""

    def __init__(self, quota: QuotaStore, now: int, *, dry_run: bool) -> None:
        self._quota = quota
        self._now = now
        self._is_due = not dry_run

    def edited(self, item: "Video", planned: RevertPlan) -> "Video":
        """Return the item with the planned state. If the poster's time changes, charge the owner's quota for the new
        poster's job.

        Raises IllegalTransition or InvalidContent if the change is not allowed, and QuotaExceeded if the quota is used
        up.
        """
        if not planned.changes:
            return item
        edited = apply_revert(item, planned.state, self._now)
        if self._is_due and "source" in item and edited.get("posterTime") != item.get("posterTime"):
            self._quota.reserve(item["userId"], 1, self._now)
            self._is_due = False
        return edited


def _without(
    item: "Video", entries: Sequence[Item], later: Sequence[Item], own: str, force: Sequence[str]
) -> RevertPlan:
    """Plan to revert the changes that one change set made to a video.

    `entries` are the audit entries of the change set for this video. `later` are all audit entries of the video since
    the earliest of these entries, inclusive. Both lists are newest first.
    """
    later_keys = {entry[SORT_KEY] for entry in later}
    entries = [entry for entry in entries if entry[SORT_KEY] in later_keys]
    if not entries:
        raise Gone("The video of the change set was removed. The current video with this videoId is another one.")
    now = next(versions(item, (), 0)).state
    if entries[-1]["action"] != "created":
        if any("omitted" in entry for entry in entries):
            raise Gone("A change of the change set was too large for the audit trail, so it cannot be reverted.")
        planned = revert_plan.plan_without_set(now, entries, later, own, writable=is_writable, force=force)
        if item["status"] == "deleted" != planned.state["status"]:
            # If a source file arrived after the deletion, the video returns to another status than before the deletion.
            state = planned.state | {"status": item["statusBeforeDelete"]}
            return RevertPlan(state, planned.changes, planned.skipped, planned.already)
        return planned
    if item["status"] == "deleted":
        return RevertPlan(now, already=["/status"])
    if "" not in force and (skipped := revert_plan.find_later_author(entries, later, own)):
        return RevertPlan(now, skipped=[skipped])
    return RevertPlan(now | {"status": "deleted"}, [{"field": "/status", "from": item["status"], "to": "deleted"}])


def _is_as_old(entry: Item, first: Item) -> bool:
    """Return whether `entry` is so old that no older entry is needed.

    This is the case if `entry` is `first` or an older entry, or if it is the creation or removal of the video.
    """
    return bool(entry[SORT_KEY] <= first[SORT_KEY] or entry["action"] in ("created", "expired", "removed"))


def _noted(entries: Iterable[Item], read: list[Item]) -> Iterator[Item]:
    """Yield the entries, and append each entry to the list `read`."""
    for entry in entries:
        read.append(entry)
        yield entry
