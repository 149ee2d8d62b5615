"""A revert of a change set of 120 videos, 30 of which were edited later, restores exactly the unedited fields."""

import pickle
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from moto import mock_aws

from local.testbed.harness import Api, Clock, make_api
from local.testbed.lean_moto import restore_tables, stored_tables
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import TrailBehind
from shared.history.outcome import RevertResult
from shared.routes import ADMIN, WRITE
from shared.schema import CHANGESET, SORT_KEY, TABLE_NAME, VIDEO
from shared.videos.video import apply_patch, new_item
from tests.integration.faults import Killed
from tests.reverting import RevertTestbed
from tests.unit.conftest import SharedClient

VIDEOS, EDITED, SEED = 120, 30, 1
"""VIDEOS exceeds the number of videos that one request reverts, so that a run starts."""
SET, RUN = "import-1", "a-run"
IMPORT = Caller.job("import").acting_for(SET)
PEOPLE = [Caller(name, frozenset({WRITE, ADMIN})) for name in ("bob", "carol", "dan")]
ROOT = Caller("root", frozenset({ADMIN}))
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
FIELDS = ("/category", "/metadata/genre", "/tags", "/title")
"""Fields that the import changes. In each video it changes all or some of them."""

SAVED_ATTRIBUTES = ("random", "changeset_entries", "expected", "later_authors", "reverted", "_taken")
"""Attributes of a Library that its snapshot contains."""

LaterAuthors = dict[str, dict[str, str]]
"""User who edited a field after the import, by video id and field."""


@dataclass(frozen=True)
class Saved:
    """Snapshot of a library: the tables and the expectations."""

    tables: bytes
    attributes: bytes


class Library(RevertTestbed):
    """Videos that an import changed, some of which users have edited since."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.random = random.Random(SEED)
        self.changeset_entries: defaultdict[str, dict[str, Item]] = defaultdict(dict)
        """Audit entries of the change set, by video and sort key."""
        self.ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(VIDEOS)]
        self.expected: dict[str, Item] = {}
        """Expected final fields of each video."""
        self.later_authors: LaterAuthors = {}
        self.reverted: dict[str, tuple[str, ...]] = {}
        """Fields of each video that the revert must restore."""

    def fill(self) -> None:
        """Create the videos, import them, and edit some of them."""
        for number, video_id in enumerate(self.ids):
            self._create(number, video_id)
        for number, video_id in enumerate(self.ids):
            self._import(number, video_id)
        for video_id in self.random.sample(self.ids, EDITED):
            self._edit(video_id)

    def saved(self) -> "Saved":
        """Return a snapshot of the current state."""
        return Saved(stored_tables(), pickle.dumps({name: vars(self)[name] for name in SAVED_ATTRIBUTES}))

    def restore(self, saved: "Saved") -> None:
        """Restore a snapshot."""
        restore_tables(saved.tables)
        vars(self).update(pickle.loads(saved.attributes))  # noqa: S301 -- made here

    def _create(self, number: int, video_id: str) -> None:
        self.expected[video_id] = {
            "title": f"Film {number}",
            "category": "drama",
            "tags": [f"t{number % 7}"],
            "metadata": {"genre": "noir", "kept": number},
        }
        content = self.expected[video_id] | {"visibility": "private"}
        item = new_item(content, video_id=video_id, owner="alice", created_at=1, status="uploaded")
        self.videos.create(item, ROOT, int(self.clock()))

    def _import(self, number: int, video_id: str) -> None:
        """Change a video in the import's change set, in one write or two."""
        wrong = {"title": f"film_{number}.mp4", "category": "misc", "tags": ["imported"], "metadata": {"genre": None}}
        names = [name for name in sorted(wrong) if name == "title" or number % 3]
        if number % 5 == 0:
            self._write(video_id, IMPORT, {"title": "?"})
        self._write(video_id, IMPORT, {name: wrong[name] for name in names})
        self.reverted[video_id] = tuple(field for field in FIELDS if field.split("/")[1] in names)

    def _edit(self, video_id: str) -> None:
        """Correct some imported fields as random users, and write other fields."""
        corrections = {"title": "Corrected", "category": "right", "metadata": {"genre": "crime"}, "tags": ["right"]}
        by_field = {"/title": "title", "/category": "category", "/metadata/genre": "metadata", "/tags": "tags"}
        edited_fields = [field for field in self.reverted[video_id] if self.random.random() < 0.6] or ["/title"]
        for field in edited_fields:
            person, name = self.random.choice(PEOPLE), by_field[field]
            self._write(video_id, person, {name: corrections[name]})
            merged = {**self.expected[video_id]["metadata"], "genre": "crime"}
            self.expected[video_id][name] = merged if name == "metadata" else corrections[name]
            self.later_authors.setdefault(video_id, {})[field] = person.subject
        self._write(video_id, self.random.choice(PEOPLE), {"description": "A note", "metadata": {"note": "beside"}})
        self.expected[video_id] |= {"description": "A note"}
        self.expected[video_id]["metadata"] = self.expected[video_id]["metadata"] | {"note": "beside"}
        self.reverted[video_id] = tuple(field for field in self.reverted[video_id] if field not in edited_fields)

    def _write(self, video_id: str, caller: Caller, patch: Mapping[str, Any]) -> None:
        self.videos.change(
            video_id, caller, int(self.clock()), lambda item: apply_patch(item, patch, int(self.clock()))
        )

    def add(self, entry: Item) -> None:
        super().add(entry)
        if entry.get(CHANGESET) == SET:
            self.changeset_entries[entry["videoId"]][entry[SORT_KEY]] = entry

    def all_records(self) -> list[dict[str, Any]]:
        """Return all stream records since the last call, without delivering them to the router."""
        records: list[dict[str, Any]] = []
        while page := self.records():
            records += page
        return records

    def revert_video(self, video_id: str) -> RevertResult | None:
        """Revert the change set's entries of a video, or return `None` if there are none."""
        entries_by_key = self.changeset_entries[video_id]
        if not entries_by_key:
            return None
        entries = [entries_by_key[sort_key] for sort_key in sorted(entries_by_key, reverse=True)]
        return self.reverts.revert_changes(entries, ROOT.acting_for(RUN), int(self.clock()), own=RUN)

    def revert_change_set(self) -> dict[str, Any]:
        """Revert the change set by a request and the resulting run, and return the final report."""
        begun = self.undo(SET)
        assert begun.status == 202, begun.body
        self.work()
        items: list[Item] = []
        query = "limit=100"
        while query:
            run: dict[str, Any] = self.run(SET, begun.json["revertId"], query=query).json
            items += run["items"]
            query = f"limit=100&cursor={run['nextCursor']}" if run["nextCursor"] else ""
        return run | {"items": items}

    def content(self) -> dict[str, Item]:
        """Return the current fields of the videos."""
        names = ("title", "description", "category", "tags", "metadata")
        items = (self.item(video_id) for video_id in self.ids)
        return {
            item["videoId"]: {
                name: sorted(item[name]) if name == "tags" else item[name] for name in names if name in item
            }
            for item in items
        }

    def versions(self) -> dict[str, int]:
        """Return the version of each video."""
        return {video_id: self.item(video_id)["version"] for video_id in self.ids}

    def assert_as_expected(self, outcomes: Mapping[str, RevertResult]) -> None:
        """Assert that exactly the unedited fields are reverted, and that the report names every later author."""
        assert self.content() == self.expected
        assert {video_id: outcome.fields for video_id, outcome in outcomes.items()} == self.reverted
        assert later_authors(outcomes) == self.later_authors
        assert len(self.later_authors) == EDITED


def later_authors(outcomes: Mapping[str, RevertResult]) -> LaterAuthors:
    """Return the later author of each skipped field, and assert that time and version are present."""
    assert all(skipped.at and skipped.version for outcome in outcomes.values() for skipped in outcome.skipped)
    return {
        video_id: {skipped.field: (skipped.by or {})["id"] for skipped in outcome.skipped}
        for video_id, outcome in outcomes.items()
        if outcome.skipped
    }


@pytest.fixture(scope="module")
def saved(empty_tables: bytes, shared_client: SharedClient) -> tuple[Saved, Saved]:
    """Return two snapshots of the library: with an empty and with a complete trail. Tests share them, because creating
    the library takes longer than the revert."""
    with mock_aws():
        restore_tables(empty_tables)
        library = Library(make_api(Table(TABLE_NAME, shared_client.reset(), sleep=lambda _: None), Clock()))
        library.fill()
        written = library.saved()
        library.keep(library.all_records())
        return written, library.saved()


@pytest.fixture
def library(api: Api, saved: tuple[Saved, Saved]) -> Library:
    """Return the library with its complete trail."""
    library = Library(api)
    library.restore(saved[1])
    return library


@pytest.fixture
def with_empty_trail(api: Api, saved: tuple[Saved, Saved]) -> Library:
    """Return the library with an empty trail."""
    library = Library(api)
    library.restore(saved[0])
    return library


def test_exactly_the_unedited_fields_are_reverted_and_a_second_revert_writes_nothing(library: Library) -> None:
    untouched = sum(not library.reverted[video_id] for video_id in library.ids)
    first = library.revert_change_set()
    assert (first["state"], first["failed"]) == ("done", 0)
    assert (first["reverted"], first["skipped"]) == (VIDEOS - untouched, untouched)
    assert library.content() == library.expected
    assert _named_by(first) == library.later_authors

    versions = library.versions()
    second = library.revert_change_set()
    assert library.versions() == versions
    assert (second["reverted"], second["unchanged"], second["skipped"]) == (0, VIDEOS - EDITED, EDITED)
    assert _named_by(second) == library.later_authors


def _named_by(run: Mapping[str, Any]) -> LaterAuthors:
    return {
        item["videoId"]: {skipped["field"]: skipped["by"]["id"] for skipped in item["skipped"]}
        for item in run["items"]
        if item["skipped"]
    }


def test_result_is_the_same_with_repeated_late_and_reordered_records(with_empty_trail: Library) -> None:
    library = with_empty_trail
    outcomes: dict[str, RevertResult] = {}
    due = library.all_records()
    delivered: list[dict[str, Any]] = []
    while due:
        now, due = _some(due, library.random)
        repeated = library.random.sample(delivered, len(delivered) // 5)
        library.keep(library.random.sample(repeated, len(repeated)) + now)
        delivered += now
        for video_id in dict.fromkeys(_video_of(raw) for raw in now):
            try:
                outcome = library.revert_video(video_id)
            except TrailBehind:
                continue
            if outcome:
                outcomes[video_id] = _merged(outcomes.get(video_id), outcome)
        due += library.all_records()
    library.assert_as_expected(outcomes)


def _video_of(raw: dict[str, Any]) -> str:
    return Record(raw).pk.removeprefix(VIDEO.partition_prefix)


def _some(
    records: Sequence[dict[str, Any]], chance: random.Random
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split records randomly into those delivered now and those delivered later. The records of each item stay in
    order."""
    by_item: dict[str, list[dict[str, Any]]] = {}
    for raw in records:
        by_item.setdefault(_video_of(raw), []).append(raw)
    now: list[dict[str, Any]] = []
    later: list[dict[str, Any]] = []
    for item_records in chance.sample(list(by_item.values()), len(by_item)):
        some = chance.randint((len(item_records) + 1) // 2, len(item_records))
        now += item_records[:some]
        later += item_records[some:]
    return now, later


def _merged(before: RevertResult | None, after: RevertResult) -> RevertResult:
    """Return the total result of two reverts of a video. The trail has more entries at the second revert."""
    return RevertResult.of(sorted({*(before.fields if before else ()), *after.fields}), after.skipped)


@contextmanager
def _killed(library: Library, *, after: bool) -> Iterator[None]:
    """Kill the process at its next write, before DynamoDB receives it or after DynamoDB applied it."""

    def between(operation: str, _: Any, send: Callable[..., Any]) -> Any:
        if operation in WRITES:
            if after:
                send()
            raise Killed
        return send()

    undo = intercept(library.table.client, between)
    try:
        yield
    finally:
        undo()


@pytest.mark.parametrize("trail_follows", [True, False], ids=["trail follows", "trail is behind"])
def test_revert_killed_at_any_write_completes(library: Library, trail_follows: bool) -> None:
    before, outcomes = library.versions(), {}
    for video_id in library.ids:
        if library.reverted[video_id]:
            for after in (False, True):
                with _killed(library, after=after), pytest.raises(Killed):
                    library.revert_video(video_id)
            if trail_follows:
                library.keep(library.all_records())
        outcome = library.revert_video(video_id)
        assert outcome
        outcomes[video_id] = outcome
    library.assert_as_expected(outcomes)
    assert library.versions() == {
        video_id: version + bool(library.reverted[video_id]) for video_id, version in before.items()
    }
