"""Reverts a change set in this process with the service's code, and reports the results.

The table stores the progress of a large revert, as in the service. Therefore an interrupted revert resumes without
counting an entry twice. A state file stores only the revert's id.
"""

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.changesets import ChangeSets
from shared.history.revert_runs import DONE, RevertRequest, RunStore, run_document
from shared.routes import ADMIN, READ, WRITE
from tools import ToolError
from tools.history import format_value, moment, named, subject, who
from tools.progress import Advance, Bars
from tools.rate_limit import THREADS, retry_while_behind

UNDOER = Caller("tools:undo", frozenset({READ, WRITE, ADMIN}))
"""Caller of reverts by this tool. The service treats this caller as a user, so a revert by this tool can also be
reverted."""

COUNTED = 1000
"""Maximum number of audit entries or result documents per query."""
PAGES = THREADS
"""Number of pages of the change set that are reverted concurrently. It is the number of threads. Each page has at
least one video or playlist, so every thread has work."""
SHARED_SECONDS = 1
"""Seconds between two checks of the progress while another process runs the same revert."""


class UndoCommand:
    """Command that reverts one change set, and shows a progress bar."""

    def __init__(
        self,
        runs: RunStore,
        reverts: ChangeSetReverts,
        changeset_id: str,
        request: RevertRequest,
        *,
        bars: Bars,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        wait: Callable[[], object] = lambda: None,
    ) -> None:
        """Create the command. It calls `wait` before each step of a large revert.

        `wait` must block until the audit trail has caught up.
        """
        self._wait = wait
        self._runs = runs
        self._reverts = reverts
        self._id = changeset_id
        self._request = request
        self._bars = bars
        self._clock = clock
        self._sleep = sleep

    def run(self, total: int) -> dict[str, Any]:
        """Revert the change set, which has `total` entries, or resume an earlier attempt.

        Returns the document of the operation `getRevert`. `items` has a report for each item of the change set. Raises
        ToolError if the audit trail does not catch up, or if another user deletes the stored progress.
        """
        with self._bars.bar("Entries", total, counted=True) as advance:
            if self._runs.read(self._request.own) is None:
                report, is_done = retry_while_behind(
                    lambda: self._reverts.revert(self._id, self._request, self._now(), lambda: True), self._sleep
                )
                if is_done:
                    advance(total)
                    return report
            run = self._continue(advance)
        return run_document(run) | {"items": list(self._reported())}

    def _continue(self, advance: Advance) -> Item:
        has_waited = False
        while True:
            pause = self._reverts.resume(
                self._request.own, self._clock, lambda: True, lambda run: self._begin_turn(run, advance)
            )
            run = self._runs.read(self._request.own)
            if run is None:
                raise ToolError("The run no longer exists in the table. Another user has deleted it.")
            advance(run["examined"])
            if run["state"] == DONE:
                return run
            if pause and not has_waited:
                has_waited = True
                print(
                    "Waiting for the audit trail, or for other writers of the same videos: "
                    f"{run['waiting']} parts will be retried.",
                    file=sys.stderr,
                )
            self._sleep(pause or SHARED_SECONDS)

    def _begin_turn(self, run: Item, advance: Advance) -> None:
        advance(run["examined"])
        self._wait()

    def _reported(self) -> Iterator[Item]:
        after = None
        while True:
            page = self._runs.list_reports(self._request.own, COUNTED, after)
            yield from (item["report"] for item in page.items)
            after = page.resume
            if after is None:
                return

    def _now(self) -> int:
        return int(self._clock())


def entries_of(sets: ChangeSets, changeset_id: str, now: int) -> int:
    """Return the number of audit entries of a change set. Raises ToolError if there are none."""
    total, after = 0, None
    while True:
        page = sets.list_keys(changeset_id, UNDOER, now, limit=COUNTED, after=after)
        total, after = total + len(page.items), page.resume
        if after is None:
            break
    if not total:
        raise ToolError(
            f"The change set {format_value(changeset_id)} was not found. Its entries may be some seconds late, or have expired."
        )
    return total


class SavedRevert:
    """State file with the id of a revert. If the command runs again, it reads the id, and resumes the revert."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._path = path
        self._settings = json.dumps(settings, sort_keys=True)

    def id(self) -> str:
        """Return the id in the state file. If the file does not exist, create it with a new id.

        Raises ToolError if the file is not a state file, or belongs to a command with other options.
        """
        if not self._path.exists():
            saved = {"settings": self._settings, "revertId": f"undo-{uuid.uuid4()}"}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_name(f"{self._path.name}.part")
            part.write_text(json.dumps(saved), encoding="utf-8")
            part.replace(self._path)
        try:
            saved = json.loads(self._path.read_text(encoding="utf-8"))
            settings, revert_id = saved["settings"], str(saved["revertId"])
        except (ValueError, KeyError, TypeError) as error:
            raise ToolError(
                f"{self._path} is not the state file of an undo. Delete it, or name another with --state."
            ) from error
        if settings != self._settings:
            raise ToolError(
                f"{self._path} belongs to an interrupted undo with other options. Use the same options, delete the file, "
                "or name another with --state."
            )
        return revert_id

    def forget(self) -> None:
        """Delete the file, because the revert is complete."""
        self._path.unlink(missing_ok=True)


def show(report: Mapping[str, Any], command: Callable[[str], str]) -> int:
    """Print the results of a revert. Returns the exit status, 1 if the revert of any item failed.

    `command` returns the command line that reverts the change set with the given id.
    """
    console = Console(highlight=False, soft_wrap=True)
    is_rehearsal = bool(report["dryRun"])
    for part in report["items"]:
        for line in describe_part(part, is_rehearsal=is_rehearsal):
            console.print(line)
    would = "would be " if is_rehearsal else ""
    parted = sum(part["result"] == "reverted" and bool(part["skipped"]) for part in report["items"])
    print(
        f"{report['reverted']} {would}reverted{f' ({parted} of them partly)' if parted else ''}, "
        f"{report['unchanged']} unchanged, "
        f"{report['skipped']} skipped, {report['failed']} failed."
    )
    if any(left["reason"] == "changedSince" for part in report["items"] for left in part["skipped"]):
        print("Use --force FIELD to also revert a field that was changed since.")
    if report["reverted"] and not is_rehearsal:
        own = str(report["revertId"])
        print(f"This revert is the change set {own}. To revert it: {command(own)}")
    return 1 if report["failed"] else 0


def describe_part(part: Mapping[str, Any], *, is_rehearsal: bool) -> Iterator[Text]:
    """Yield the lines to print about the result for one item: the reverted fields, each skipped field, and the failure,
    if any."""
    name = subject(part)
    if part["entity"] not in ("video", "playlist"):
        name = f"{name}, video {format_value(part['videoId'])}"
    if part["fields"]:
        fields = ", ".join(map(named, part["fields"]))
        yield _line(name, "would be reverted: " if is_rehearsal else "reverted: ", fields, "green")
    elif part["result"] == "reverted":
        yield _line(name, "would be reverted" if is_rehearsal else "reverted", "", "green")
    for left in part["skipped"]:
        yield _line(name, "skipped: ", f"{named(left['field'])}, {_reason(left)}", "yellow")
    if part["result"] == "failed":
        problem = part["problem"]
        # The detail of a problem with a single invalid field already contains that field's error.
        wrong = "; ".join(
            f"{named(error['pointer'])}: {format_value(error['detail'])}"
            for error in problem.get("errors", ())
            if "pointer" in error and error["detail"] not in problem["detail"]
        )
        yield _line(name, "failed: ", format_value(problem["detail"]) + (f" ({wrong})" if wrong else ""), "red")
    if part.get("omitted"):
        yield _line(name, f"and {part['omitted']} more fields", "", "dim")


def _reason(left: Mapping[str, Any]) -> str:
    match left["reason"]:
        case "notKept":
            return "which the trail has truncated"
        case "notWritable":
            return "which users cannot write"
        case "gone":
            return "whose video was deleted permanently"
        case _:
            at = f" at {moment(left['at'] // 1000)}" if "at" in left else ""
            return f"changed since by {who(left['by'])}{at}"


def _line(name: str, what: str, rest: str, style: str) -> Text:
    return Text.assemble((f"{name}: ", "bold"), what, (rest, style))
