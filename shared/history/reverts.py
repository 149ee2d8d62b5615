"""Reverting videos: to an earlier version, or by taking back what one change set did to them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.changes import Change
from shared.core.errors import Gone, NotFound
from shared.films.quota import QuotaStore
from shared.history import plan
from shared.history.entries import DIGEST
from shared.history.outcome import Outcome
from shared.history.plan import Plan, Skipped
from shared.history.trail import AuditStore
from shared.history.was import at_version, versions
from shared.schema import CHANGESET, SORT_KEY
from shared.videos.catalogue import VideoStore
from shared.videos.documents import changes
from shared.videos.video import is_writable, reverted


@dataclass(frozen=True)
class Reverted:
    """A video that was set back, or would be."""

    document: dict[str, Any]
    """As GET shows it to its owner, without the view count."""
    changes: list[Change]
    """As the audit trail names them; none: nothing was written."""
    skipped: list[Skipped]


class VideoReverts:
    """Sets videos back, by what the audit trail knows of them."""

    def __init__(self, videos: VideoStore, trail: AuditStore, quota: QuotaStore) -> None:
        """A poster of another moment is a job, and counts as one in `quota`."""
        self.videos = videos
        self.trail = trail
        self.quota = quota

    def to_version(
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
    ) -> Reverted:
        """Set back what differs from an earlier version, below `fields`, but for what others changed since and `force` does
        not cover.

        The write is conditional on the version that was read; a lost race is planned again. Raises NotFound, Forbidden,
        VersionMismatch, Gone, TrailBehind, and what a change of the video raises.
        """
        made: list[Change] = []
        left: list[Skipped] = []
        charge = _Charge(self.quota, now, dry_run=dry_run)

        def edit(item: Item) -> Item:
            """Planned anew for each state that the write meets."""
            back = versions(item, self.trail.back(video_id, now), now)
            present = next(back)
            then = at_version(chain([present], back), version)
            planned = plan.to_version(
                present.state, then.state, then.later, caller, writable=is_writable, fields=fields, force=force
            )
            edited = charge.edited(item, planned)
            made[:], left[:] = changes(item, edited), planned.skipped
            return edited

        with self._explaining_absence(video_id, caller, now):
            document = self.videos.change(video_id, caller, now, edit, matches=matches, dry_run=dry_run)
        return Reverted(document, made, left)

    def take_back(
        self,
        entries: Sequence[Item],
        caller: Caller,
        now: int,
        *,
        own: str,
        force: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Outcome:
        """Take back what the entries of one change set did to one video; they are its own, the newest first.

        `own` is the id of the run that asks: as the caller's correlation id it is on all that is written, so what an earlier
        try of the run did counts as reverted. Raises ServiceError: one of PASSING (TrailBehind, Throttled, WriteContention)
        is worth another try, any other means that this video cannot be taken back (`Outcome.failed`).
        """
        video_id, outcome = entries[0]["videoId"], Outcome("unchanged")
        charge = _Charge(self.quota, now, dry_run=dry_run)

        def edit(item: Item) -> Item:
            nonlocal outcome
            later = self._since(item, entries[-1], own, now)
            planned = _without(item, entries, later, own, force)
            edited = charge.edited(item, planned)
            is_done = item.get(UPDATED_FOR) == own or any(entry.get(CHANGESET) == own for entry in later)
            fields = [change["field"] for change in planned.changes] or (planned.already if is_done else [])
            outcome = Outcome.of(fields, planned.skipped)
            return edited

        with self._explaining_absence(video_id, caller, now):
            self.videos.change(video_id, caller.acting_for(own), now, edit, dry_run=dry_run)
        return outcome

    def _since(self, item: Item, first: Item, own: str, now: int) -> list[Item]:
        """The entries of a video since one of them, the newest first; raises TrailBehind or Gone unless all are there.

        But for the last write, if it is the run's own: what that did is known.
        """
        read: list[Item] = []
        entries = _noted(self.trail.back(item["videoId"], now), read)
        known = item
        if item.get(UPDATED_FOR) == own:
            known = item | {"version": item["version"] - 1}
            # What an entry says of the video is what it was before the run's write.
            entries = ({**entry, DIGEST: None} for entry in entries)
        for version in versions(known, entries, now):
            if version.number == first["version"]:
                break  # what was before the change set need not be in the trail any more
        while not (read and _is_as_old(read[-1], first)) and next(entries, None):
            pass
        return [entry for entry in read if entry[SORT_KEY] >= first[SORT_KEY]]

    @contextmanager
    def _explaining_absence(self, video_id: str, caller: Caller, now: int) -> Iterator[None]:
        """Raise Gone in place of NotFound if there was such a video, and the caller may know of it."""
        try:
            yield
        except NotFound as error:
            last = next(self.trail.back(video_id, now), None)
            if last and last["action"] in ("expired", "removed") and caller.owns(last.get("owner", "")):
                at = last["at"] // 1000
                raise Gone(f"The video was removed at {at}, with all that belonged to it.") from error
            raise


class _Charge:
    """Counts the poster of another moment as the job that it is: once, however often the write is tried."""

    def __init__(self, quota: QuotaStore, now: int, *, dry_run: bool) -> None:
        self._quota = quota
        self._now = now
        self._is_due = not dry_run

    def edited(self, item: Item, planned: Plan) -> Item:
        """The item as planned; raises IllegalTransition, InvalidContent, QuotaExceeded."""
        if not planned.changes:
            return item
        edited = reverted(item, planned.state, self._now)
        if self._is_due and "source" in item and edited.get("posterTime") != item.get("posterTime"):
            self._quota.reserve(item["userId"], 1, self._now)
            self._is_due = False
        return edited


def _without(item: Item, entries: Sequence[Item], later: Sequence[Item], own: str, force: Sequence[str]) -> Plan:
    """What taking these entries of a change set back would do to a video."""
    there = {entry[SORT_KEY] for entry in later}
    entries = [entry for entry in entries if entry[SORT_KEY] in there]
    if not entries:
        raise Gone("The video that the change set wrote was removed; this is a later one with the same videoId.")
    now = next(versions(item, (), 0)).state
    if entries[-1]["action"] != "created":
        if any("omitted" in entry for entry in entries):
            raise Gone("A change of the change set was larger than the trail can keep.")
        planned = plan.without_set(now, entries, later, own, writable=is_writable, force=force)
        if item["status"] == "deleted" != planned.state["status"]:
            # A film that arrived meanwhile has changed what it was before its deletion.
            state = planned.state | {"status": item["statusBeforeDelete"]}
            return Plan(state, planned.changes, planned.skipped, planned.already)
        return planned
    if item["status"] == "deleted":
        return Plan(now, already=["/status"])
    if "" not in force and (kept := plan.keeper(entries, later, own)):
        return Plan(now, skipped=[kept])
    return Plan(now | {"status": "deleted"}, [{"field": "/status", "from": item["status"], "to": "deleted"}])


def _is_as_old(entry: Item, first: Item) -> bool:
    """Whether nothing before an entry matters: it is as old as the first one, or the video began or ended with it."""
    return bool(entry[SORT_KEY] <= first[SORT_KEY] or entry["action"] in ("created", "expired", "removed"))


def _noted(entries: Iterable[Item], read: list[Item]) -> Iterator[Item]:
    """The entries, each of which is added to `read` when it is asked for."""
    for entry in entries:
        read.append(entry)
        yield entry
