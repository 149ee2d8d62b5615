"""Moves of folders. A run sets the folder of each video in a folder and its subfolders, page by page.

A run is stored like the run of a revert, and its writes are one change set, which users can revert. One step finds the
next page of videos and stores their ids in the run. The following step moves these videos. Therefore the run counts
each moved video exactly once, even if a step is interrupted and repeated.

The index is eventually consistent, and other writers may add videos to the folder. Therefore the run reads the folder
again until it finds no video to move.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from shared.aws.dynamodb import LARGEST_TRANSACTION, Table
from shared.aws.listing import Lists, Window, single_partition
from shared.core.attributes import Item
from shared.core.errors import TRANSIENT_ERRORS, NotFound, ServiceError, invalid_field
from shared.core.folders import entry_prefix, is_within, moved_path, video_id_of
from shared.core.position import Page, Position
from shared.history.outcome import RevertResult
from shared.history.revert_runs import DONE, REPORTED, RUNNING, RevertRequest, RunStore, caller_from_run
from shared.schema import REVERT_PART, folders_relation
from shared.threads import map_threads
from shared.videos.store import VideoStore
from shared.videos.video import apply_patch

if TYPE_CHECKING:
    from shared.entities import Video

VIDEOS_PER_STEP = LARGEST_TRANSACTION - 1
"""Maximum number of videos that one step moves. At the end of the step, one transaction writes the run, and
writes or deletes at most one report of a failure for each video."""
THREADS = 8
"""Number of videos that are moved concurrently."""
MAX_WALKS = 30
"""Maximum number of times that a run reads the folder. A run reaches this limit if other writers keep adding videos, or
keep conflicting with its writes."""
FIRST_PAUSE, LONGEST_PAUSE = 5, 60
"""Seconds before a run reads the folder again. The pause is at least FIRST_PAUSE, and at most LONGEST_PAUSE."""

_MOVED, _UNCHANGED = RevertResult("reverted", ("/folder",)), RevertResult("unchanged")


class FolderMoves:
    """Service that moves all videos of a folder to another folder."""

    def __init__(self, table: Table) -> None:
        self._lists = Lists(table)
        self._videos = VideoStore(table)
        self._runs = RunStore(table)

    def begin(self, owner: str, folder: str, target: str, request: RevertRequest, now: int) -> Item:
        """Store and return the run that moves an owner's folder, so that the folder's path becomes `target`. A worker
        executes the run.

        Costs one Query and one PutItem. Raises InvalidContent if one of the paths contains the other, and NotFound if
        the folder has no videos.
        """
        if is_within(target, folder) or is_within(folder, target):
            raise invalid_field("/to", f"must be neither {folder}, nor a folder in it or around it")
        if not self._find(owner, folder, 1, None).items:
            raise NotFound("The folder has no videos. Send another folder.")
        about = {"owner": owner, "folder": folder, "to": target, "walks": 1, "moved": False}
        return self._runs.begin(request.own, request, now, **about)

    def step(self, run: Item, now: int, in_time: Callable[[], bool]) -> int:
        """Execute the next step of a run. Return the seconds to wait before the following step.

        Raises LeaseLost if another worker has written the run since it was read.
        """
        return self._move_found(run, now, in_time) if "found" in run else self._find_next(run, now)

    def _find(self, owner: str, folder: str, limit: int, after: Position | None) -> Page[Item]:
        prefix = entry_prefix(folder, subfolders=True)
        window = Window(0, 1, True, limit, after, attributes=("relId",), prefix=prefix)
        return self._lists.related(single_partition(folders_relation(owner)), window)

    def _find_next(self, run: Item, now: int) -> int:
        """Find the next videos to move, and store their ids in the run. Return 0, because the following step need not
        wait."""
        after = Position(0, run["after"]) if "after" in run else None
        page = self._find(run["owner"], run["folder"], VIDEOS_PER_STEP, after)
        ids = [video_id_of(entry["relId"]) for entry in page.items]
        # Entries of videos that were moved before may still be in the index. A moved video must not count again.
        present = self._videos.items(ids, consistent=True)
        found = sorted(item["videoId"] for item in present if is_within(item.get("folder", ""), run["folder"]))
        new = {**run, "found": found, "walked": page.resume is None}
        new |= {"after": page.resume.id} if page.resume else {}
        self._runs.advance(run, new, now)
        return 0

    def _move_found(self, run: Item, now: int, in_time: Callable[[], bool]) -> int:
        outcomes: Sequence[RevertResult | ServiceError | None]
        outcomes = map_threads(partial(self._try_move, run, now=now, in_time=in_time), run["found"], THREADS)
        if None in outcomes:  # there was no time; the next call also counts the videos that this call has moved
            return 0
        if run["walks"] >= MAX_WALKS:
            outcomes = [RevertResult.failed(it) if isinstance(it, ServiceError) else it for it in outcomes]
        done = {id_: it for id_, it in zip(run["found"], outcomes, strict=True) if isinstance(it, RevertResult)}
        moved = [id_ for id_, outcome in done.items() if outcome.result == "reverted"]
        failed = {id_: outcome.problem for id_, outcome in done.items() if outcome.problem}
        new = {name: value for name, value in run.items() if name != "found"}
        new |= {
            "moved": run["moved"] or bool(moved),
            "reverted": run["reverted"] + len(moved),
            "failed": run["failed"] + len(failed),
            "waiting": run["waiting"] + len(outcomes) - len(done),
        }
        pause = 0
        if run["walked"]:
            is_done = run["walks"] >= MAX_WALKS or not (new["moved"] or new["waiting"])
            new["state"] = DONE if is_done else RUNNING
            if not is_done:
                pause = min(FIRST_PAUSE << (run["walks"] - 1 if new["waiting"] else 0), LONGEST_PAUSE)
                # These videos are counted again, because the next walk finds them again.
                new |= {"walks": run["walks"] + 1, "moved": False, "failed": 0, "waiting": 0}
                new.pop("after", None)
        reports = {id_: {"videoId": id_, "problem": problem} for id_, problem in failed.items()}
        # A moved video may have a report of a failure in an earlier walk. `settled` deletes this report.
        settled = [_report_key(run, id_) for id_ in moved] if run["walks"] > 1 else []
        self._runs.advance(run, new, now, named_reports=reports, settled=settled)
        return pause

    def _try_move(
        self, run: Item, video_id: str, *, now: int, in_time: Callable[[], bool]
    ) -> RevertResult | ServiceError | None:
        """Move one video, and return the result. Returns one of TRANSIENT_ERRORS if a retry may succeed, and `None` if
        there was no time for the move."""
        if not in_time():
            return None
        outcome = _UNCHANGED

        def edit(item: "Video") -> "Video":
            nonlocal outcome
            folder = item.get("folder", "")
            outcome = _MOVED if is_within(folder, run["to"]) else _UNCHANGED
            if item["status"] == "deleted" or not is_within(folder, run["folder"]):
                return item
            outcome = _MOVED
            return apply_patch(item, {"folder": moved_path(folder, run["folder"], run["to"])}, now)

        try:
            self._videos.change(video_id, caller_from_run(run), now, edit)
        except TRANSIENT_ERRORS as error:
            return error
        except NotFound:
            return _UNCHANGED
        except ServiceError as error:
            return RevertResult.failed(error)
        return outcome


def _report_key(run: Item, video_id: str) -> Item:
    return REVERT_PART.key(revertId=run["revertId"], part=f"{REPORTED}{video_id}")
