"""`python -m tools history`: it prints the audit trail of a video, earlier versions, and differences."""

import json
from typing import Any

import pytest

from local.stream_records import EXPIRY, stream_record
from local.testbed.harness import NOW, Api
from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.history.entries import FIELDS, UNKNOWN, entry
from shared.history.trail import AuditStore
from shared.schema import AUDIT_TABLE_NAME, CHANGESET, VIDEO
from tools import ToolError, rate_limit
from tools.__main__ import main
from tools.history import LONGEST, Histories, describe_change, describe_entry

DAYS = 36_500
"""Retention of entries in days. It is long because the command uses the real clock."""
MISSING = "00000000-0000-4000-8000-000000000000"


class Trail:
    """The service, and an audit trail that records a change only when a test calls `record`."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.store = AuditStore(Table(AUDIT_TABLE_NAME, api.table.client, sleep=lambda _: None))
        self._recorded: dict[str, Item] = {}
        self._sequence = 0

    def record(self, video_id: str, **options: Any) -> None:
        """Record how the video differs from its last recorded state."""
        old, new = self._recorded.get(video_id), self.api.table.get(VIDEO.key(videoId=video_id), consistent=True)
        self._sequence += 1
        audited = entry(
            Record(stream_record(old, new, sequence=self._sequence, at=self.api.clock.now, **options)), DAYS
        )
        assert audited is not None
        self.store.add(audited)
        if new:
            self._recorded[video_id] = new

    def create(self) -> str:
        """Create a video with one entry, and return its id."""
        video_id = str(self.api.create(title="A film", tags=["noir"])["videoId"])
        self.record(video_id)
        return video_id

    def patch(self, video_id: str, **fields: Any) -> None:
        """Change the video an hour later, as an admin."""
        self.api.clock.advance(3600)
        assert self.api.patch(f"/v1/videos/{video_id}", fields, user="admin").status == 200
        self.record(video_id)


@pytest.fixture
def trail(api: Api) -> Trail:
    """Return the service with an empty trail."""
    return Trail(api)


def command(video_id: str, *options: str) -> list[str]:
    """Return the arguments of the command for a video of the table."""
    return ["history", video_id, "--table", "VideoMetadata", *options]


class TestPrintedTrail:
    def test_history_prints_author_time_and_changes_newest_last(
        self, trail: Trail, capsys: pytest.CaptureFixture[str]
    ) -> None:
        video_id = trail.create()
        trail.patch(video_id, title="A better film", tags=["drama", "noir"], releaseYear=1994)
        assert main(command(video_id)) == 0
        created, *_, heading, tags, title = _without_year(capsys.readouterr().out.splitlines())
        change_set = trail.api.table.get(VIDEO.key(videoId=video_id))["updatedFor"]  # type: ignore[index]
        assert created.startswith("2025-06-15 15:06:40Z  alice  created, version 1  [change set ")
        assert heading == f"2025-06-15 16:06:40Z  admin  changed, version 2  [change set {change_set}]"
        assert tags == '    tags: ["noir"] -> ["drama", "noir"]'
        assert title == "    title: A film -> A better film"

    def test_history_prints_deletion_and_removal(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        video_id = trail.create()
        assert trail.api.delete(f"/v1/videos/{video_id}").status == 204
        trail.record(video_id)
        trail.api.table.delete(VIDEO.key(videoId=video_id))
        trail.record(video_id, identity=EXPIRY)
        assert main(command(video_id)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith("2025-06-15 15:06:40Z  alice  deleted, version 2  [change set ") for line in lines)
        assert "    status: uploaded -> deleted" in lines
        assert any(line.startswith("    purgeAt: set to 2025-09-13 15:06:40Z") for line in lines)
        assert "2025-06-15 15:06:40Z  DynamoDB  removed, because it expired, version 2" in lines

    def test_history_prints_the_newest_entries_and_a_hint_for_older_ones(
        self, trail: Trail, capsys: pytest.CaptureFixture[str]
    ) -> None:
        video_id = trail.create()
        for number in range(3):
            trail.patch(video_id, title=f"Film {number}")
        assert main(command(video_id, "--limit", "2")) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if "title" in line] == [
            "    title: Film 0 -> Film 1",
            "    title: Film 1 -> Film 2",
        ]
        assert lines[-1] == "These are the newest 2 entries; --limit 4 also shows older ones."

    def test_output_to_a_file_has_no_colours(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(command(trail.create())) == 0
        assert "\x1b" not in capsys.readouterr().out

    def test_json_option_prints_the_entries_of_the_api(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        video_id = trail.create()
        trail.patch(video_id, title="Élan")
        assert main(command(video_id, "--json")) == 0
        entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        items = trail.api.get(f"/v1/videos/{video_id}/audit", query="order=asc").json["items"]
        assert entries == items
        assert entries[1]["changes"] == [{"field": "/title", "from": "A film", "to": "Élan"}]
        assert all(entry.keys() <= set(FIELDS) for entry in entries)

    def test_history_of_a_video_that_never_existed_is_an_error(
        self, table: Table, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(command(MISSING)) == 1
        assert (
            capsys.readouterr().err
            == f"The video {MISSING} does not exist, and the audit trail has no entries of it.\n"
        )

    def test_history_without_entries_yet_is_no_error(self, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(command(api.create()["videoId"])) == 0
        assert capsys.readouterr().out.startswith(
            "The audit trail has no entries of this video. It may be some seconds behind"
        )

    def test_history_of_a_table_without_a_trail_is_an_error(
        self, table: Table, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["history", MISSING, "--table", AUDIT_TABLE_NAME]) == 1
        assert capsys.readouterr().err == (
            "The table VideoAudit has no audit trail. Only a table with VideoMetadata in its name has one.\n"
        )


class TestPastVersions:
    def test_version_option_prints_the_earlier_document(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        video_id = trail.create()
        before = trail.api.get(f"/v1/videos/{video_id}").json
        trail.patch(video_id, title="A better film", description="Better.")
        trail.patch(video_id, tags=None)
        assert main(command(video_id, "--version", "1")) == 0
        document = json.loads(capsys.readouterr().out)
        without = document.pop("without")
        assert document == {name: value for name, value in before.items() if name not in without}

    def test_diff_option_prints_the_changes_between_versions(
        self, trail: Trail, capsys: pytest.CaptureFixture[str]
    ) -> None:
        video_id = trail.create()
        trail.patch(video_id, title="A better film", description="Better.")
        trail.patch(video_id, title="The best film")
        assert main(command(video_id, "--diff", "1", "3")) == 0
        assert capsys.readouterr().out.splitlines() == [
            "description: set to Better.",
            "title: A film -> The best film",
        ]
        assert main(command(video_id, "--diff", "3", "1", "--json")) == 0
        assert json.loads(capsys.readouterr().out) == {
            "videoId": video_id,
            "from": 3,
            "to": 1,
            "changes": [
                {"field": "/description", "from": "Better."},
                {"field": "/title", "from": "The best film", "to": "A film"},
            ],
        }

    def test_diff_option_reports_equal_versions(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        video_id = trail.create()
        assert main(command(video_id, "--diff", "1", "1")) == 0
        assert capsys.readouterr().out == "Versions 1 and 1 are the same.\n"

    @pytest.mark.parametrize("options", [("--version", "2"), ("--diff", "1", "2")])
    def test_unknown_version_is_an_error(
        self, trail: Trail, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
    ) -> None:
        assert main(command(trail.create(), *options)) == 1
        assert capsys.readouterr().err == "The video has no version 2.\n"

    def test_past_of_an_absent_video_is_an_error(self, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(command(MISSING, "--version", "1")) == 1
        assert capsys.readouterr().err == "The video does not exist.\n"

    def test_truncated_field_is_named_in_the_error(
        self, trail: Trail, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("shared.history.entries.LARGEST_ENTRY", 4000)
        video_id = trail.create()
        trail.patch(video_id, description="x" * 4500)
        trail.patch(video_id, description="y" * 4500)
        assert main(command(video_id, "--version", "2")) == 1
        assert "only the beginning of /description" in capsys.readouterr().err

    def test_command_waits_for_a_lagging_trail(self, trail: Trail, capsys: pytest.CaptureFixture[str]) -> None:
        video_id = trail.create()
        assert trail.api.patch(f"/v1/videos/{video_id}", {"title": "New"}).status == 200
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 2:
                trail.record(video_id)

        histories = Histories(trail.api.table, trail.store, trail.api.clock, wait)
        assert histories.version(video_id, 1)["title"] == "A film"
        assert waits == [rate_limit.WAIT_SECONDS] * 2
        assert capsys.readouterr().err == "The audit trail is some seconds behind. Waiting for it.\n"

    def test_command_waits_at_most_120_seconds(self, trail: Trail) -> None:
        video_id = trail.create()
        assert trail.api.patch(f"/v1/videos/{video_id}", {"title": "New"}).status == 200
        histories = Histories(trail.api.table, trail.store, trail.api.clock, lambda _: None)
        with pytest.raises(ToolError, match="still behind after 120 seconds"):
            histories.version(video_id, 1)


def make_entry(**attributes: Any) -> Item:
    """Return an entry as the trail stores it."""
    base = {"videoId": MISSING, "entity": "video", "action": "changed", "at": NOW * 1000, "changes": []}
    return base | {"by": {"kind": "person", "id": "alice"}} | attributes


@pytest.mark.parametrize(
    ("attributes", "heading"),
    [
        ({"entity": "credit", "personId": "nm123", "action": "removed"}, "alice  credit of nm123 removed"),
        ({"entity": "release", "region": "NZ", "action": "created"}, "alice  release for NZ created"),
        (
            {"entity": "release", "region": "NZ", "language": "mi", "action": "changed"},
            "alice  release for NZ in mi changed",
        ),
        ({"entity": "captions", "language": "pt-BR", "action": "changed"}, "alice  captions in pt-BR changed"),
        ({"entity": "chapters", "action": "removed"}, "alice  chapters removed"),
        ({"entity": "rating", "action": "changed"}, "alice  imported rating changed"),
        (
            {
                "entity": "job",
                "kind": "poster",
                "action": "done",
                "attempt": 2,
                "by": {"kind": "job", "id": "job:poster"},
            },
            "job:poster  job poster done, attempt 2",
        ),
        ({"by": UNKNOWN, "version": 3}, "unknown (not through the service)  changed, version 3"),
        ({CHANGESET: "import-7", "version": 2}, "alice  changed, version 2  [change set import-7]"),
    ],
)
def test_every_kind_of_entry_has_a_heading(attributes: dict[str, Any], heading: str) -> None:
    (line,) = describe_entry(make_entry(**attributes))
    assert line.plain == f"2025-06-15 15:06:40Z  {heading}"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"from": "A film", "to": "B"}, "f: A film -> B"),
        ({"to": 7}, "f: set to 7"),
        ({"from": None}, "f: removed, was null"),
        ({"from": "", "to": " a"}, 'f: "" -> " a"'),
        ({"from": {"a": [1, True]}, "to": {}}, 'f: {"a": [1, true]} -> {}'),
        ({"to": "a\x1b[31m\nb"}, r'f: set to "a\u001b[31m\nb"'),
        ({"to": "\N{RIGHT-TO-LEFT OVERRIDE}a"}, r'f: set to "\u202ea"'),
        ({"to": "Amélie [red]"}, "f: set to Amélie [red]"),
        ({"to": "x" * 200, "toBytes": 9000}, f"f: set to {'x' * (LONGEST - 1)}… (9000 bytes, truncated)"),
    ],
)
def test_value_is_printed_on_one_line_without_control_characters(changed: dict[str, Any], words: str) -> None:
    assert describe_change({"field": "/f", **changed}).plain == words


def test_entry_with_omitted_changes_states_their_number() -> None:
    lines = [line.plain for line in describe_entry(make_entry(omitted=3))]
    assert lines[-1] == "    and 3 more fields, too large to store"


def _without_year(lines: list[str]) -> list[str]:
    return [line for line in lines if "releaseYear" not in line]
