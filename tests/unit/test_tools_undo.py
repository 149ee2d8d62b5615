"""`python -m tools undo`: it reverts a change set, reports fields that were changed since, and counts nothing twice."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from local.testbed.audited import AuditedService
from local.testbed.harness import NOW, Api, remove_video
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.errors import invalid_field, invalid_fields
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.changesets import ChangeSets
from shared.history.entries import UNKNOWN
from shared.history.revert_runs import RevertRequest, RunStore
from shared.processing.daily_quota import QuotaStore
from shared.schema import CHANGESET
from tests.polling import LIMIT
from tests.reverting import WRITES
from tools import ToolError
from tools.__main__ import main
from tools.progress import Advance, Bars
from tools.rate_limit import THREADS, WAIT_SECONDS
from tools.undo import UNDOER, SavedRevert, UndoCommand, describe_part, entries_of

LATER = "2025-06-15 15:06:4"
"""Prefix of printed times within ten seconds of the tests' start time."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of state files. Trail entries do not expire, because the command uses the real clock."""
    folder = tmp_path / "undo"
    folder.mkdir()
    monkeypatch.setattr("tools.__main__.UNDOS", folder)
    monkeypatch.setattr("local.testbed.audited.DAYS", 36_500)
    # moto copies all its tables for each transaction, and restores the copy if the transaction fails.
    monkeypatch.setattr("shared.history.parts.CONCURRENT_PARTS", 1)
    monkeypatch.setattr("tools.__main__.THREADS", 1)
    return folder


@pytest.fixture
def service(api: Api) -> AuditedService:
    """Return the service with an empty audit trail."""
    return AuditedService(api)


def retitled(service: AuditedService, count: int) -> tuple[list[str], str]:
    """Return new videos, and the change set of a request that gave them a wrong title."""
    videos = [service.create(title=f"Film {number}") for number in range(count)]
    operations = [{"op": "patch", "videoId": video_id, "patch": {"title": "Untitled"}} for video_id in videos]
    service.write("POST", "/v1/videos/batch", {"operations": operations})
    return videos, str(service.entries(videos[0])[0][CHANGESET])


def titles(service: AuditedService, videos: list[str]) -> list[str]:
    """Return the current titles of the videos."""
    return [service.item(video_id)["title"] for video_id in videos]


class Terminal:
    """Terminal: it runs the command, and stores the lines of output and errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out: list[str] = []
        self.err: list[str] = []

    def run(self, changeset_id: str, *options: str) -> int:
        """Revert a change set of the table, and return the exit status."""
        self._capsys.readouterr()  # discards the log lines of the service
        status = main(["undo", changeset_id, "--table", "VideoMetadata", *options])
        captured = self._capsys.readouterr()
        self.out, self.err = captured.out.splitlines(), captured.err.splitlines()
        return status


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Return a terminal without output."""
    return Terminal(capsys)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat change sets of more than two entries as large, and revert two entries per step."""
    monkeypatch.setattr("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", 2)
    monkeypatch.setattr("shared.history.changeset_reverts.ENTRIES_PER_STEP", 2)


class RecordingBars(Bars):
    """Progress bars that record their positions."""

    def __init__(self) -> None:
        super().__init__()
        self.total: int | None = None
        self.done: list[int] = []

    @contextmanager
    def bar(self, title: str, total: int | None, *, counted: bool = False) -> Iterator[Advance]:
        """Record the total and the positions without displaying them."""
        self.total = total
        yield self.done.append


def run_undo(service: AuditedService, changeset_id: str, bars: Bars | None = None, **options: Any) -> Mapping[str, Any]:
    """Revert a change set with the tests' clock, and return the report."""
    request = RevertRequest(UNDOER.acting_for("undo-1"), attended=True)
    reverts = ChangeSetReverts(service.table, service.trail, QuotaStore(service.table, 100))
    undo = UndoCommand(
        RunStore(service.table), reverts, changeset_id, request, bars=bars or Bars(), clock=service.clock, **options
    )
    return undo.run(entries_of(ChangeSets(service.trail.table), changeset_id, int(service.clock())))


def stop_after(patch: pytest.MonkeyPatch, writes: int) -> None:
    """End the process right after this number of writes."""
    remaining = [writes]

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def write_or_stop(*arguments: Any, **options: Any) -> Any:
            if remaining[0] == 0:
                raise KeyboardInterrupt
            result = write(*arguments, **options)
            remaining[0] -= 1
            if remaining[0] == 0:
                raise KeyboardInterrupt
            return result

        return write_or_stop

    for name in ("write", "transact"):
        patch.setattr(Table, name, counted(getattr(Table, name)))


class TestSmall:
    def test_undo_reverts_all_fields_except_those_changed_since(
        self, service: AuditedService, terminal: Terminal, folder: Path
    ) -> None:
        videos, changeset_id = retitled(service, 3)
        service.patch(videos[1], "admin", title="A good title")
        assert terminal.run(changeset_id) == 0
        assert titles(service, videos) == ["Film 0", "A good title", "Film 2"]
        *parts, counts, hint, own = terminal.out
        (skipped_line,) = [line for line in parts if "skipped: " in line]
        assert skipped_line.startswith(f"video {videos[1]}: skipped: title, changed since by admin at {LATER}")
        assert sorted(line for line in parts if line != skipped_line) == sorted(
            f"video {video_id}: reverted: title" for video_id in (videos[0], videos[2])
        )
        assert counts == "2 reverted, 0 unchanged, 1 skipped, 0 failed."
        assert hint == "Use --force FIELD to also revert a field that was changed since."
        assert own.endswith(" --table VideoMetadata")
        assert list(folder.iterdir()) == []

    def test_undo_may_revert_a_video_partly(self, service: AuditedService, terminal: Terminal) -> None:
        video_id = service.create(title="A film", tags=["noir"])
        service.patch(video_id, title="Untitled", tags=["todo"])
        changeset_id = str(service.entries(video_id)[0][CHANGESET])
        service.patch(video_id, "admin", tags=["drama"])
        assert terminal.run(changeset_id) == 0
        back, skipped_line, counts, *_ = terminal.out
        assert back == f"video {video_id}: reverted: title"
        assert skipped_line.startswith(f"video {video_id}: skipped: tags, changed since by admin at {LATER}")
        assert counts == "1 reverted (1 of them partly), 0 unchanged, 0 skipped, 0 failed."

    def test_undo_is_a_change_set_that_can_be_undone(self, service: AuditedService, terminal: Terminal) -> None:
        videos, changeset_id = retitled(service, 2)
        assert terminal.run(changeset_id) == 0
        service.settle()
        newest = service.entries(videos[0])[0]
        own = newest[CHANGESET]
        assert newest["by"] == {"kind": "person", "id": "tools:undo"}
        assert terminal.out[-1] == (
            f"This revert is the change set {own}. To revert it: python -m tools undo {own} --table VideoMetadata"
        )
        assert terminal.run(own) == 0
        assert titles(service, videos) == ["Untitled", "Untitled"]

    def test_second_undo_changes_nothing(self, service: AuditedService, terminal: Terminal) -> None:
        videos, changeset_id = retitled(service, 2)
        assert terminal.run(changeset_id) == 0
        service.settle()
        before = [service.item(video_id) for video_id in videos]
        assert terminal.run(changeset_id) == 0
        assert terminal.out == ["0 reverted, 2 unchanged, 0 skipped, 0 failed."]
        assert [service.item(video_id) for video_id in videos] == before

    def test_dry_run_writes_nothing(self, service: AuditedService, terminal: Terminal, folder: Path) -> None:
        videos, changeset_id = retitled(service, 1)
        before = service.item(videos[0])
        assert terminal.run(changeset_id, "--dry-run") == 0
        assert terminal.out == [
            f"video {videos[0]}: would be reverted: title",
            "1 would be reverted, 0 unchanged, 0 skipped, 0 failed.",
        ]
        assert service.item(videos[0]) == before
        assert list(folder.iterdir()) == []

    def test_undo_writes_no_files_to_the_current_folder(
        self, service: AuditedService, terminal: Terminal, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, changeset_id = retitled(service, 2)
        for name, status in (("here", 1), ("there", 0)):
            (tmp_path / name).mkdir()
            monkeypatch.chdir(tmp_path / name)
            with monkeypatch.context() as stopping:
                if status:
                    stop_after(stopping, 1)
                assert terminal.run(changeset_id) == status
            assert list((tmp_path / name).iterdir()) == []
            # the state file is found from any folder, and deleted at the end
            assert len(list(folder.iterdir())) == status

    def test_undo_completes_when_its_output_is_closed(
        self, service: AuditedService, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        videos, changeset_id = retitled(service, 1)
        with monkeypatch.context() as leaving:
            leaving.setattr("tools.__main__.show", mock.Mock(side_effect=BrokenPipeError))
            assert terminal.run(changeset_id) == 1
        assert (titles(service, videos), terminal.err, list(folder.iterdir())) == (["Film 0"], [], [])

    @pytest.mark.parametrize("field", ["title", "/title", ""])
    def test_force_reverts_fields_changed_since(self, service: AuditedService, terminal: Terminal, field: str) -> None:
        videos, changeset_id = retitled(service, 1)
        service.patch(videos[0], "admin", title="A good title")
        assert terminal.run(changeset_id, "--force", field) == 0
        assert titles(service, videos) == ["Film 0"]

    def test_undo_fails_for_a_deleted_video_and_reverts_the_rest(
        self, service: AuditedService, terminal: Terminal
    ) -> None:
        videos, changeset_id = retitled(service, 2)
        remove_video(service.table, videos[0])
        service.settle()
        assert terminal.run(changeset_id) == 1
        assert any(line.startswith(f"video {videos[0]}: failed: ") for line in terminal.out)
        assert "1 reverted, 0 unchanged, 0 skipped, 1 failed." in terminal.out
        assert service.item(videos[1])["title"] == "Film 1"

    @pytest.mark.usefixtures("table")
    def test_undo_of_an_unknown_change_set_is_an_error(self, terminal: Terminal, folder: Path) -> None:
        assert terminal.run("nothing") == 1
        assert terminal.err == [
            "The change set nothing was not found. Its entries may be some seconds late, or have expired."
        ]
        assert list(folder.iterdir()) == []

    def test_undo_waits_for_a_lagging_trail(self, service: AuditedService, capsys: pytest.CaptureFixture[str]) -> None:
        videos, changeset_id = retitled(service, 1)
        service.api.patch(f"/v1/videos/{videos[0]}", {"category": "new"}, user="admin")
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            service.settle()

        assert run_undo(service, changeset_id, sleep=sleep)["reverted"] == 1
        assert waits == [WAIT_SECONDS]
        assert capsys.readouterr().err == "The audit trail is some seconds behind. Waiting for it.\n"


@pytest.mark.usefixtures("small_steps")
class TestLarge:
    @pytest.mark.slow
    def test_undo_lists_skipped_fields_at_the_end(self, service: AuditedService, terminal: Terminal) -> None:
        videos, changeset_id = retitled(service, 5)
        service.patch(videos[3], "admin", title="A good title")
        assert terminal.run(changeset_id) == 0
        assert titles(service, videos) == ["Film 0", "Film 1", "Film 2", "A good title", "Film 4"]
        skipped_line, counts, *_ = terminal.out
        assert skipped_line.startswith(f"video {videos[3]}: skipped: title, changed since by admin at {LATER}")
        assert counts == "4 reverted, 0 unchanged, 1 skipped, 0 failed."

    def test_undo_queues_no_messages_for_workers(self, service: AuditedService, terminal: Terminal) -> None:
        _, changeset_id = retitled(service, 3)
        assert terminal.run(changeset_id) == 0
        service.settle()
        assert service.queues["reverts"].take() == []

    @pytest.mark.slow
    @pytest.mark.parametrize("written", range(1, 7))
    def test_stopped_undo_resumes_and_counts_nothing_twice(
        self, service: AuditedService, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch, written: int
    ) -> None:
        videos, changeset_id = retitled(service, 3)
        with monkeypatch.context() as stopping:
            stop_after(stopping, written)
            assert terminal.run(changeset_id) == 1
        assert terminal.err == ["Stopped; run the same command again to continue."]
        assert [path.name for path in folder.iterdir()] == [f"{changeset_id}.state"]
        assert terminal.run(changeset_id) == 0
        assert titles(service, videos) == [f"Film {number}" for number in range(3)]
        assert terminal.out[0] == "3 reverted, 0 unchanged, 0 skipped, 0 failed."
        assert [service.item(video_id)["version"] for video_id in videos] == [3] * 3
        assert list(folder.iterdir()) == []

    def test_undo_has_as_many_concurrent_writes_as_an_import(
        self, service: AuditedService, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Make the first writes wait until there are as many concurrent writes as an import has threads."""
        monkeypatch.setattr("tools.__main__.THREADS", THREADS)
        monkeypatch.setattr("tools.__main__.open_table", lambda _: service.table)
        monkeypatch.setattr("tools.__main__.open_trail", lambda _: service.trail)
        videos, changeset_id = retitled(service, THREADS + 1)
        in_flight = threading.Barrier(THREADS)
        remaining = iter(range(THREADS))
        one_at_a_time = threading.RLock()  # moto's tables are not thread-safe

        def between(operation: str, _: Mapping[str, Any], send: Callable[[], Any]) -> Any:
            is_revert = operation in WRITES and threading.current_thread() is not threading.main_thread()
            if is_revert and next(remaining, None) is not None:
                in_flight.wait(LIMIT)
            with one_at_a_time:
                return send()

        stop = intercept(service.table.client, between)
        try:
            assert terminal.run(changeset_id) == 0
        finally:
            stop()
        assert titles(service, videos) == [f"Film {number}" for number in range(len(videos))]
        assert next(remaining, None) is None

    def test_undo_shows_its_progress(self, service: AuditedService) -> None:
        _, changeset_id = retitled(service, 5)
        bars = RecordingBars()
        run_undo(service, changeset_id, bars)
        assert bars.total == 5
        assert bars.done == sorted(bars.done)
        assert (bars.done[0], bars.done[-1]) == (0, 5)

    def test_undo_waits_for_a_lagging_trail(self, service: AuditedService, capsys: pytest.CaptureFixture[str]) -> None:
        videos, changeset_id = retitled(service, 3)
        service.api.patch(f"/v1/videos/{videos[0]}", {"category": "new"}, user="admin")

        def sleep(seconds: float) -> None:
            service.clock.advance(seconds)
            service.settle()

        assert run_undo(service, changeset_id, sleep=sleep)["reverted"] == 3
        assert titles(service, videos) == ["Film 0", "Film 1", "Film 2"]
        assert capsys.readouterr().err == (
            "Waiting for the audit trail, or for other writers of the same videos: 1 parts will be retried.\n"
        )


SETTINGS = {"changeset": "c"}


class TestStateFile:
    def test_state_file_has_one_id_until_the_undo_completes(self, folder: Path) -> None:
        path = folder / "undo.state"
        first = SavedRevert(path, SETTINGS).id()
        assert SavedRevert(path, SETTINGS).id() == first
        SavedRevert(path, SETTINGS).forget()
        assert not path.exists()
        assert SavedRevert(path, SETTINGS).id() != first

    def test_state_file_of_other_options_is_refused(self, folder: Path) -> None:
        path = folder / "undo.state"
        SavedRevert(path, SETTINGS).id()
        with pytest.raises(ToolError, match="belongs to an interrupted undo with other options"):
            SavedRevert(path, {"changeset": "d"}).id()

    @pytest.mark.parametrize("content", ["", "[]", "{}", '"x"'])
    def test_state_file_of_another_format_is_not_overwritten(self, folder: Path, content: str) -> None:
        path = folder / "undo.state"
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ToolError, match="is not the state file of an undo"):
            SavedRevert(path, SETTINGS).id()
        assert path.read_text(encoding="utf-8") == content


def part(**attributes: Any) -> Item:
    """Return a part of the report on a change set, as the service returns it."""
    return {"entity": "video", "videoId": "v", "result": "reverted", "fields": [], "skipped": []} | attributes


BY = {"by": {"kind": "person", "id": "bob"}, "at": NOW * 1000}


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (part(result="unchanged"), []),
        (part(fields=["/title", "/metadata/a.b"]), ["video v: reverted: title, metadata/a.b"]),
        (part(entity="credit", personId="nm1"), ["credit of nm1, video v: reverted"]),
        (
            part(entity="playlist", playlistId="p", fields=["/entries/v/rank"]),
            ["playlist p: reverted: entries/v/rank"],
        ),
        (
            part(result="skipped", skipped=[{"field": "/tags", "reason": "changedSince", **BY}]),
            ["video v: skipped: tags, changed since by bob at 2025-06-15 15:06:40Z"],
        ),
        (
            part(skipped=[{"field": "/tags", "reason": "changedSince", "by": UNKNOWN}], fields=["/title"]),
            ["video v: reverted: title", "video v: skipped: tags, changed since by unknown (not through the service)"],
        ),
        (
            part(
                entity="playlist", playlistId="p", result="skipped", skipped=[{"field": "/entries/v", "reason": "gone"}]
            ),
            ["playlist p: skipped: entries/v, whose video was deleted permanently"],
        ),
        (
            part(result="skipped", skipped=[{"field": "/description", "reason": "notKept"}]),
            ["video v: skipped: description, which the trail has truncated"],
        ),
        (
            part(
                result="failed",
                problem=invalid_fields(
                    [{"pointer": "/title", "detail": "is too long"}, {"pointer": "/tags", "detail": "are too many"}]
                ).problem(),
            ),
            ["video v: failed: 2 fields are invalid. (title: is too long; tags: are too many)"],
        ),
        (
            part(result="failed", problem=invalid_field("/title", "is too long").problem()),
            ["video v: failed: The field title is too long."],
        ),
        (part(fields=["/title"], omitted=3), ["video v: reverted: title", "video v: and 3 more fields"]),
    ],
)
def test_every_outcome_is_described(report: Item, lines: list[str]) -> None:
    assert [line.plain for line in describe_part(report, is_rehearsal=False)] == lines


def test_rehearsal_describes_what_would_be_reverted() -> None:
    lines = [line.plain for line in describe_part(part(fields=["/title"]), is_rehearsal=True)]
    assert lines == ["video v: would be reverted: title"]
