"""Export and import in the service's format: round trips, invalid lines, and interrupted runs."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from local.testbed import wire
from local.testbed.harness import NOW, Api, create_table, make_api, record_operations
from local.testbed.lean_moto import restore_tables
from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.background.aggregates import Aggregates
from shared.captions.store import CaptionStore
from shared.core.attributes import AttributeMap, Item, decode_item
from shared.core.caller import UPDATED_FOR, Caller
from shared.processing.job_store import JobStore
from shared.relations.ratings import RatingStore
from shared.schema import (
    MEMBERSHIP,
    PLAYLIST,
    RATING_TOTALS,
    SCHEMA_VERSION,
    VIDEO,
    VIEW_COUNTER,
    VIEW_HOUR,
)
from tests.integration.faults import Crash, crash_after
from tests.rating_totals import settle_ratings
from tools import ToolError
from tools.exchange_format import parse_line
from tools.exporting import Export
from tools.imdb import RowRefused
from tools.importing import LineImport
from tools.lines import Corrupt, Damaged
from tools.progress import Advance, Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER_ID = "5c9b2f8e-1111-4222-8333-0305e82c3302"
LIST_ID = "9b2f8e5c-1111-4222-8333-0305e82c3303"
VIDEO_LINE: dict[str, Any] = {"entity": "Video", "videoId": VIDEO_ID, "userId": "alice", "createdAt": 5, "status": "ready", "title": "A film"}  # fmt: skip
DERIVED = ("AGG", "#PROFILE", "#COUNT")
"""Sort keys of items that an export omits, because the stream creates them again."""


@pytest.fixture
def target(table: Table) -> Table:
    """Return another table, which is empty."""
    client = make_client()
    create_table(client, "Target")
    return Table("Target", client, sleep=lambda _: None)


@pytest.fixture(scope="module")
def filled(fill_once: Callable[[Callable[[Api], None]], tuple[bytes, None]]) -> bytes:
    """Return the serialised tables of a service that has every kind of exported item."""
    tables, _ = fill_once(_fill)
    return tables


@pytest.fixture
def full(filled: bytes, api: Api) -> Api:
    """Return a service that has every kind of exported item."""
    restore_tables(filled)
    return api


def _fill(api: Api) -> None:
    published = api.publish(videoId=VIDEO_ID, tags=["Äpfel", "b"], category="film", releaseYear=1999, duration=5000, metadata={"a": 1.5, "b": True}, seriesId=OTHER_ID, season=2, episode=3)  # fmt: skip
    api.create(videoId=OTHER_ID, user="admin", userId="bob", expiresAt=NOW + 50)
    api.delete(f"/v1/videos/{api.create('bob')['videoId']}", user="bob")
    path = f"/v1/videos/{published['videoId']}"
    for person in ("nm1", "nm-2"):
        body = {"name": "Zoë", "ordering": 1, "roles": [{"category": "actor", "characters": ["Eve"]}]}
        assert api.put(f"{path}/credits/{person}", body).status == 201
    for locale in ("NZ", "NZ/mi", "SUHH"):
        assert api.put(f"{path}/releases/{locale}", {"titles": [{"title": "Āporo"}]}).status == 201
    captions: Item = {"text": "0f" * 16, "cues": 2, "size": 60, "origin": "owner"}
    CaptionStore(api.table).put(VIDEO_ID, "mi", captions, Caller("alice", frozenset()), NOW, lambda _: True)
    chapters = [{"start": 0, "title": "Tahi"}, {"start": 2500, "title": "Rua"}]
    assert api.put(f"{path}/chapters", {"chapters": chapters}).status == 201
    ratings: dict[str, dict[str, Any]] = {"alice": {"value": 7}, "bob": {"like": True}, "carol": {"like": False}}
    for user, rating in ratings.items():
        assert api.put(f"{path}/rating", rating, user=user).status == 200
    for _ in range(3):
        api.post(f"{path}/views", user="bob")
    playlist_id = api.post("/v1/playlists", {"title": "Mine", "visibility": "public"}, user="bob").json["playlistId"]
    for video_id in (VIDEO_ID, OTHER_ID):
        assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}, user="bob").status == 201
    assert api.patch(f"/v1/playlists/{playlist_id}/entries/{VIDEO_ID}", {"before": None}, user="bob").status == 200
    api.post("/v1/playlists", {"title": "Empty"}, user="alice")
    video = api.table.get(VIDEO.key(videoId=VIDEO_ID)) or {}
    JobStore(api.table).request(
        video | {"source": {"arrivedAt": 1, "uploadId": "1"}}, "probe", {"uri": "s3://a/b"}, NOW
    )
    settle(api.table)


def settle(table: Table) -> None:
    """Apply all records of the stream. Tests call this once per table, after all writes."""
    ids = {item["videoId"] for item in contents(table).values() if "videoId" in item}
    Aggregates(table).settle(sorted(ids), NOW)
    settle_ratings(table)


def contents(table: Table) -> dict[tuple[str, str], Item]:
    """Return all items of the table, by key."""
    pages = table.client.get_paginator("scan").paginate(TableName=table.name)
    items = [decode_item(cast(AttributeMap, raw)) for page in pages for raw in page["Items"]]
    return {(item["pk"], item["sk"]): item for item in items}


def export(table: Table, file: Path, *, raw: bool = False, page: int = 50) -> dict[str, int]:
    """Run `python -m tools export`, and return the number of lines by entity."""
    return Export(table, file, raw=raw, bars=Bars(), clock=lambda: NOW, page=page).run()


def lines(file: Path) -> list[dict[str, Any]]:
    """Return the lines of an export."""
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


class Run:
    """Outcome of an import."""

    def __init__(self, outcomes: dict[str, int], refused: Sequence[tuple[int, str]]) -> None:
        self.outcomes = outcomes
        self.refused = list(refused)


def import_file(table: Table, file: Path, now: int = NOW) -> Run:
    """Run `python -m tools import`, and return its outcome."""
    work = WorkFile(file.with_suffix(".state"), {}, table)
    try:
        LineImport(file, table, work, rate=RateLimiter(None), pool=Pool(1), bars=Bars(), clock=lambda: now).run()
        run = Run(work.outcomes().get(file.name, {}), [(line, reason) for _, line, reason, _ in work.refused()])
        work.remove()
    finally:
        work.close()
    return run


def import_lines(table: Table, tmp_path: Path, entries: Sequence[Any], now: int = NOW) -> Run:
    """Import these lines. Byte strings are written unchanged, other values as JSON."""
    file = tmp_path / "lines.jsonl"
    texts = [entry if isinstance(entry, bytes) else json.dumps(entry).encode() for entry in entries]
    file.write_bytes(b"".join(text + b"\n" for text in texts))
    return import_file(table, file, now)


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_exported_items_are_imported_unchanged(full: Api, target: Table, tmp_path: Path, name: str) -> None:
    counts = export(full.table, tmp_path / name)
    assert counts == {"Video": 3, "Credit": 2, "Release": 3, "Captions": 1, "Chapters": 1, "Job": 1, "Views": 1, "Rating": 3, "Playlist": 2, "Entry": 2}  # fmt: skip
    run = import_file(target, tmp_path / name)
    assert run.refused == []
    settle(target)
    before, after = contents(full.table), contents(target)
    assert after.keys() == before.keys()
    for key, item in before.items():
        if key[1] in DERIVED or key[1] == RATING_TOTALS.sk:
            continue
        # Request ids are valid only in their own deployment. Imported views belong to no hour. `moves` is only for the
        # audit trail.
        comparable = {name: value for name, value in item.items() if name not in (UPDATED_FOR, "hour", "moves")}
        assert {name: value for name, value in after[key].items() if name != UPDATED_FOR} == comparable
    written_for = {item.get(UPDATED_FOR) for key, item in after.items() if key[0].startswith(("VIDEO#", "PLAYLIST#"))}
    (change_set,) = written_for - {None}
    assert str(change_set).startswith("import-")
    for key, item in after.items():
        if key[1].startswith(("#META", "CREDIT#", "RELEASE#", "CAPTION#", "CHAPTERS", "HAS#", "ENTRY#")):
            assert item[UPDATED_FOR] == change_set


def test_imported_child_items_have_the_owner_of_their_video(full: Api, target: Table, tmp_path: Path) -> None:
    RatingStore(full.table).set_imported(VIDEO_ID, 7.5, 10, Caller.job("import"), NOW)
    export(full.table, tmp_path / "all.jsonl")
    assert not {"owner", "removing", "moves"} & {
        name for line in lines(tmp_path / "all.jsonl") if line["entity"] not in ("Views", "Job") for name in line
    }
    import_file(target, tmp_path / "all.jsonl")
    owners = {
        item.get("owner")
        for key, item in contents(target).items()
        if key[0] == f"VIDEO#{VIDEO_ID}"
        and key[1].startswith(("CREDIT#", "RELEASE#", "CAPTION#", "CHAPTERS", "#RATING"))
    }
    assert owners == {"alice"}


def test_deleted_playlist_is_neither_exported_nor_changed_by_an_import(full: Api, tmp_path: Path) -> None:
    export(full.table, tmp_path / "before.jsonl")
    for playlist in full.get("/v1/playlists", query="userId=alice", user="alice").json["items"]:
        assert full.delete(f"/v1/playlists/{playlist['playlistId']}").status == 204
    before = contents(full.table)
    run = import_file(full.table, tmp_path / "before.jsonl")
    assert contents(full.table) == before
    assert {reason for _, reason in run.refused} == {"already exists and differs: skipped"}
    assert export(full.table, tmp_path / "after.jsonl").get("Playlist", 0) < 2


def test_totals_are_computed_again_after_an_import(full: Api, target: Table, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.jsonl")
    import_file(target, tmp_path / "all.jsonl")
    settle(target)
    copy = make_api(target)
    for path, user in (
        (f"/v1/videos/{VIDEO_ID}/rating", "bob"),
        ("/v1/tags", "bob"),
        ("/v1/users/alice", "alice"),
        ("/v1/users/bob", "bob"),
        (f"/v1/videos/{VIDEO_ID}", "alice"),
        (f"/v1/videos/{VIDEO_ID}/playlists", "alice"),
        ("/v1/people/nm1/videos", "alice"),
    ):
        assert copy.get(path, user=user).json == full.get(path, user=user).json


def test_imported_ratings_are_exported(api: Api, target: Table, tmp_path: Path) -> None:
    run = import_lines(api.table, tmp_path, [VIDEO_LINE, {"entity": "ImportedRating", "videoId": VIDEO_ID, "imported": {"average": 7.5, "votes": 9}}])  # fmt: skip
    assert run.outcomes == {"created": 2}
    export(api.table, tmp_path / "all.jsonl")
    import_file(target, tmp_path / "all.jsonl")
    totals = target.get(RATING_TOTALS.key(videoId=VIDEO_ID)) or {}
    assert totals["imported"] == {"average": 7.5, "votes": 9}


class TestViews:
    """The view count of a video is one line of an export, and one item after an import, for any number of shards."""

    LINE: ClassVar[dict[str, Any]] = {"entity": "Views", "videoId": VIDEO_ID, "views": 118, "watched": 7000, "owner": 2}

    @pytest.fixture
    def sharded(self, api: Api, tmp_path: Path) -> Table:
        """Return a table with a video that has three counter shards and views of every kind."""
        import_lines(api.table, tmp_path, [VIDEO_LINE])
        first: Item = {"views": 6, "keyed": 2, "watched": 7000, "hour": "2025-06-15T15", "spread": 4}
        for shard, sums in enumerate((first, {"views": 10, "owner": 2}, {"views": 100})):
            api.table.write(api.table.put(VIEW_COUNTER.key(videoId=VIDEO_ID, shard=shard) | sums))
        api.table.write(api.table.put(VIEW_HOUR.key(videoId=VIDEO_ID, hour="2025-06-15T15")))
        return api.table

    def test_the_sums_of_all_shards_are_exported(self, sharded: Table, target: Table, tmp_path: Path) -> None:
        export(sharded, tmp_path / "all.jsonl")
        assert [line for line in lines(tmp_path / "all.jsonl") if line["entity"] == "Views"] == [self.LINE]
        import_file(target, tmp_path / "all.jsonl")
        assert make_api(target).get(f"/v1/videos/{VIDEO_ID}").json["viewCount"] == 118
        assert target.get(VIEW_COUNTER.key(videoId=VIDEO_ID, shard=1)) is None

    @pytest.mark.parametrize(
        ("line", "outcome"), [({}, "unchanged"), ({"views": 117}, "skipped"), ({"owner": 3}, "skipped")]
    )
    def test_imported_views_are_compared_with_the_sum_of_all_shards(
        self, sharded: Table, tmp_path: Path, line: dict[str, Any], outcome: str
    ) -> None:
        assert import_lines(sharded, tmp_path, [self.LINE | line]).outcomes == {outcome: 1}

    def test_raw_export_has_all_shards_and_hours(self, sharded: Table, tmp_path: Path) -> None:
        export(sharded, tmp_path / "raw.jsonl", raw=True)
        items = [decode_item(line["Item"]) for line in lines(tmp_path / "raw.jsonl")]
        assert sorted(item["pk"] for item in items if item["pk"].startswith("VIEWS#")) == [
            f"VIEWS#{VIDEO_ID}",
            *(f"VIEWS#{VIDEO_ID}#{shard}" for shard in range(3)),
        ]


def test_captions_without_their_text_are_404_after_an_import(
    full: Api, target: Table, objects: Objects, tmp_path: Path
) -> None:
    export(full.table, tmp_path / "all.jsonl")
    import_file(target, tmp_path / "all.jsonl")
    copy = make_api(target, objects=objects)
    path = f"/v1/videos/{VIDEO_ID}"
    for child in ("captions", "chapters"):
        assert copy.get(f"{path}/{child}").json == full.get(f"{path}/{child}").json
    reply = copy.get(f"{path}/captions/mi")
    assert (reply.status, reply.json["detail"]) == (
        404,
        "This deployment does not store the text of these captions. Upload them again.",
    )


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (
            {"entity": "Captions", "language": "mi", "text": "../../secret", "cues": 1, "size": 1, "origin": "owner"},
            "/text",
        ),
        ({"entity": "Captions", "language": "mi", "text": "0" * 32, "cues": 1, "size": 1, "origin": "me"}, "/origin"),
        (
            {"entity": "Captions", "language": "no#tag", "text": "0" * 32, "cues": 1, "size": 1, "origin": "owner"},
            "/language",
        ),
        ({"entity": "Chapters", "chapters": [{"start": 5, "title": "a"}, {"start": 5, "title": "b"}]}, "must be more"),
    ],
)
def test_captions_and_chapters_that_the_api_would_refuse_are_refused(line: dict[str, Any], detail: str) -> None:
    with pytest.raises(RowRefused) as refused:
        parse_line(1, json.dumps({"videoId": VIDEO_ID} | line).encode())
    assert refused.value.reason == f"not a valid {line['entity']}"
    assert detail in refused.value.detail


def test_a_second_import_changes_nothing(full: Api, target: Table, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.jsonl")
    import_file(target, tmp_path / "all.jsonl")
    before = contents(target)
    run = import_file(target, tmp_path / "all.jsonl")
    assert (run.outcomes, run.refused) == ({"unchanged": 19}, [])
    assert contents(target) == before


def test_export_of_imported_items_equals_the_first_export(full: Api, target: Table, tmp_path: Path) -> None:
    export(full.table, tmp_path / "one.jsonl")
    import_file(target, tmp_path / "one.jsonl")
    settle(target)
    export(target, tmp_path / "two.jsonl")
    assert lines(tmp_path / "one.jsonl") == lines(tmp_path / "two.jsonl")


def test_raw_export_has_every_item_unchanged(full: Api, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.json.gz", raw=True)
    items = [decode_item(line["Item"]) for line in lines(tmp_path / "all.json.gz")]
    assert {(item["pk"], item["sk"]): item for item in items} == contents(full.table)


def test_export_sends_no_scan(full: Api, tmp_path: Path) -> None:
    with record_operations(full.table.client) as operations:
        export(full.table, tmp_path / "all.jsonl")
    assert {operation.name for operation in operations} == {"Query", "GetItem", "BatchGetItem"}


def test_an_empty_table_is_exported_as_an_empty_file(table: Table, target: Table, tmp_path: Path) -> None:
    assert export(table, tmp_path / "all.jsonl.gz") == {}
    assert lines(tmp_path / "all.jsonl.gz") == []
    assert import_file(target, tmp_path / "all.jsonl.gz").outcomes == {}


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("queries", [1, 3, 9, 25, 33])
def test_crashed_export_resumes_and_equals_an_undisturbed_one(
    full: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int, raw: bool
) -> None:
    export(full.table, tmp_path / "whole.jsonl.gz", raw=raw, page=1)
    with monkeypatch.context() as patched:
        crash_after(queries, patched, "begin_query")
        with pytest.raises(Crash):
            export(full.table, tmp_path / "all.jsonl.gz", raw=raw, page=1)
    assert not (tmp_path / "all.jsonl.gz").exists()
    # as after a power failure during the write of a page
    with (tmp_path / "all.jsonl.gz.part").open("ab") as file:
        file.write(b"half a li")
    export(full.table, tmp_path / "all.jsonl.gz", raw=raw, page=1)
    assert lines(tmp_path / "all.jsonl.gz") == lines(tmp_path / "whole.jsonl.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl.gz", "whole.jsonl.gz"]


@pytest.mark.parametrize("raw", [False, True])
def test_progress_of_an_export_includes_the_work_before_an_interruption(
    full: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bool
) -> None:
    class Watched(Bars):
        """Progress bars of a terminal."""

        is_shown = True

        @contextmanager
        def bar(self, title: str, total: int | None, *, counted: bool = False) -> Iterator[Advance]:
            """Record the arguments of a progress bar."""
            titles.append(title)
            totals.append(total)
            yield done.append

    titles: list[str] = []
    totals: list[int | None] = []
    done: list[int] = []

    def run() -> None:
        Export(full.table, tmp_path / "all.jsonl", raw=raw, bars=Watched(), clock=lambda: NOW, page=1).run()

    with monkeypatch.context() as patched:
        crash_after(40, patched, "begin_query")  # after the queries that count the items
        with pytest.raises(Crash):
            run()
    assert 0 < done[-1] < (totals[0] or 0)
    run()
    assert done == sorted(done)
    assert totals == [done[-1]] * 2
    assert titles == ["Videos, users and tags" if raw else "Videos and users"] * 2


def test_export_does_not_overwrite_a_file(table: Table, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text("precious")
    with pytest.raises(ToolError, match="already exists"):
        export(table, tmp_path / "all.jsonl")


@pytest.mark.parametrize("writes", [0, 1, 4, 9, 12, 14])
def test_crashed_import_resumes_and_equals_an_undisturbed_one(
    full: Api, target: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    export(full.table, tmp_path / "all.jsonl")
    with monkeypatch.context() as patched:
        crash_after(writes, patched, "write", "transact")
        with pytest.raises(Crash):
            import_file(target, tmp_path / "all.jsonl")
    run = import_file(target, tmp_path / "all.jsonl")
    assert run.refused == []
    settle(target)
    export(target, tmp_path / "again.jsonl")
    assert lines(tmp_path / "again.jsonl") == lines(tmp_path / "all.jsonl")


def test_import_of_a_truncated_export_resumes_with_the_complete_file(full: Api, target: Table, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.jsonl")
    complete = (tmp_path / "all.jsonl").read_bytes()
    (tmp_path / "all.jsonl").write_bytes(complete[:-20])
    with pytest.raises(Damaged, match="is truncated within line 19"):
        import_file(target, tmp_path / "all.jsonl")
    (tmp_path / "all.jsonl").write_bytes(complete)
    assert import_file(target, tmp_path / "all.jsonl").refused == []


BAD = {
    b"{": "the line is not JSON",
    b'{"entity": "Video", "title": NaN}': "the line is not JSON",
    b'{"entity": "Video", "title": "\xff"}': "the line is not UTF-8",
    b'{"entity": "Video", "title": "\\ud800"}': "the line is not UTF-8",
    b"[]": "the line is not a JSON object",
    b"{}": "unknown entity",
    b'{"entity": "Film"}': "unknown entity",
}


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_malformed_line_is_refused(table: Table, tmp_path: Path, line: bytes) -> None:
    run = import_lines(table, tmp_path, [line, VIDEO_LINE])
    assert (run.refused, run.outcomes) == ([(1, BAD[line])], {"created": 1})


@pytest.mark.parametrize("times", [{"expiresAt": 6}, {"publishAt": NOW + 9, "expiresAt": NOW + 5}], ids=str)
def test_video_with_times_that_the_api_refuses_is_imported_unchanged(
    table: Table, tmp_path: Path, times: dict[str, int]
) -> None:
    run = import_lines(table, tmp_path, [VIDEO_LINE | times])
    assert (run.refused, run.outcomes) == ([], {"created": 1})
    assert export(table, tmp_path / "again.jsonl")
    line = json.loads((tmp_path / "again.jsonl").read_text())
    assert {name: line[name] for name in times} == times


@pytest.mark.parametrize(
    ("entity", "attributes"),
    [
        ("Video", {"title": "T", "userId": "alice", "createdAt": 5, "status": "ready"}),
        ("Video", {"videoId": "no uuid", "title": "T", "userId": "alice", "createdAt": 5, "status": "ready"}),
        ("Video", {"videoId": OTHER_ID, "title": "T", "userId": "alice", "createdAt": 5, "status": "lost"}),
        ("Video", {"videoId": OTHER_ID, "title": "T", "userId": "alice", "createdAt": 5, "status": "deleted"}),
        ("Video", {"videoId": OTHER_ID, "title": "", "userId": "alice", "createdAt": 5, "status": "ready"}),
        ("Credit", {"videoId": VIDEO_ID, "ordering": 1, "roles": [{"category": "self"}]}),
        ("Credit", {"videoId": VIDEO_ID, "personId": "nm1", "ordering": 1, "roles": []}),
        ("Release", {"videoId": VIDEO_ID, "region": "QQ", "titles": [{"title": "T"}]}),
        ("Release", {"videoId": VIDEO_ID, "region": "NZ", "language": "-", "titles": [{"title": "T"}]}),
        ("Views", {"videoId": VIDEO_ID}),
        ("Rating", {"videoId": VIDEO_ID, "userId": "bob", "value": 11, "ratedAt": 5}),
        ("Rating", {"videoId": VIDEO_ID, "value": 10, "ratedAt": 5}),
        ("ImportedRating", {"videoId": VIDEO_ID, "imported": {"average": 11.0, "votes": 1}}),
        ("Job", {"videoId": VIDEO_ID, "kind": "probe", "state": "queued", "input": {}, "inputHash": "x"}),
        ("Views", {"videoId": VIDEO_ID, "views": -1}),
        ("Playlist", {"playlistId": LIST_ID, "title": "T", "createdAt": 5}),
        ("Entry", {"playlistId": LIST_ID, "videoId": VIDEO_ID, "rank": "#", "addedAt": 5}),
    ],
)
def test_invalid_line_is_refused_without_partial_changes(
    table: Table, tmp_path: Path, entity: str, attributes: dict[str, Any]
) -> None:
    import_lines(table, tmp_path, [VIDEO_LINE])
    before = contents(table)
    run = import_lines(table, tmp_path, [{"entity": entity} | attributes])
    assert run.refused == [(1, f"not a valid {entity}")]
    assert contents(table) == before


@pytest.mark.parametrize(
    ("entity", "attributes"),
    [
        ("Video", VIDEO_LINE),
        ("Credit", {"personId": "nm1", "ordering": 1, "roles": [{"category": "self"}]}),
        ("Release", {"region": "NZ", "titles": [{"title": "T"}]}),
        ("Rating", {"userId": "bob", "value": 5}),
        ("ImportedRating", {"imported": {"average": 5.0, "votes": 1}}),
        ("Job", {"kind": "probe", "owner": "alice", "state": "done", "input": {}, "inputHash": "x", "since": "1", "attempt": 1}),
        ("Views", {"views": 7}),
        ("Playlist", {"playlistId": LIST_ID, "userId": "bob", "title": "T"}),
        ("Entry", {"playlistId": LIST_ID}),
    ],
)  # fmt: skip
def test_unknown_attributes_are_refused_by_name(table: Table, entity: str, attributes: dict[str, Any]) -> None:
    line = attributes | {"entity": entity} | ({} if entity == "Playlist" else {"videoId": VIDEO_ID})
    parse_line(1, json.dumps(line).encode())
    with pytest.raises(RowRefused) as refused:
        parse_line(1, json.dumps(line | {"viewCount": 7}).encode())
    assert refused.value.detail.startswith("/viewCount: is unknown")


def test_missing_fields_of_a_line_get_default_values(api: Api, tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {
            "entity": "Video",
            "videoId": VIDEO_ID,
            "userId": "alice",
            "status": "ready",
            "title": "T",
            "visibility": "public",
        },
        {"entity": "Release", "videoId": VIDEO_ID, "region": "nz", "language": "MI", "titles": [{"title": "T"}]},
        {"entity": "Rating", "videoId": VIDEO_ID, "userId": "bob", "value": 5},
        {"entity": "Views", "videoId": VIDEO_ID, "views": 7},
        {"entity": "Playlist", "playlistId": LIST_ID, "userId": "bob", "title": "T"},
        {"entity": "Entry", "playlistId": LIST_ID, "videoId": VIDEO_ID},
    ]
    assert import_lines(api.table, tmp_path, entries).outcomes == {"created": 6}
    video = api.get(f"/v1/videos/{VIDEO_ID}").json
    assert (video["createdAt"], video["updatedAt"], video["version"], video["viewCount"]) == (NOW, NOW, 1, 7)
    assert api.get(f"/v1/videos/{VIDEO_ID}/rating", user="bob").json["own"] == {"value": 5, "ratedAt": NOW}
    (release,) = api.get(f"/v1/videos/{VIDEO_ID}/releases/NZ").json["items"]
    assert (release["region"], release["language"]) == ("NZ", "mi")
    assert api.get(f"/v1/playlists/{LIST_ID}", user="bob").json["createdAt"] == NOW
    membership = api.table.get(MEMBERSHIP.key(playlistId=LIST_ID, videoId=VIDEO_ID)) or {}
    assert membership["addedAt"] == NOW
    second = import_lines(api.table, tmp_path, entries, now=NOW + 100)
    assert (second.outcomes, second.refused) == ({"unchanged": 6}, [])


def test_entries_without_a_rank_follow_ranked_entries_in_line_order(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = [api.publish()["videoId"] for _ in range(5)]
    ranks = {videos[3]: "V00007", videos[1]: "V00003"}
    entries = [{"entity": "Playlist", "playlistId": LIST_ID, "userId": "alice", "title": "T"}]
    for video_id in videos:
        rank = {"rank": ranks[video_id]} if video_id in ranks else {}
        entries.append({"entity": "Entry", "playlistId": LIST_ID, "videoId": video_id} | rank)
    with monkeypatch.context() as patched:
        crash_after(2, patched, "transact")
        with pytest.raises(Crash):
            import_lines(api.table, tmp_path, entries)
    import_lines(api.table, tmp_path, entries)
    listed = api.get(f"/v1/playlists/{LIST_ID}/entries").json["items"]
    assert [entry["videoId"] for entry in listed] == [videos[n] for n in (1, 3, 0, 2, 4)]


def test_entry_after_the_highest_rank_is_refused(api: Api, tmp_path: Path) -> None:
    playlist = {"entity": "Playlist", "playlistId": LIST_ID, "userId": "alice", "title": "T"}
    entry = {"entity": "Entry", "playlistId": LIST_ID}
    last = entry | {"videoId": VIDEO_ID, "rank": "zzzzzz"}
    run = import_lines(api.table, tmp_path, [playlist, last, entry | {"videoId": OTHER_ID}])
    assert run.refused == [(3, "no rank is left after the last entry")]


def test_damaged_compressed_export_is_refused_completely(full: Api, target: Table, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl.gz"
    export(full.table, file)
    content = bytearray(file.read_bytes())
    content[-6] ^= 0xFF
    file.write_bytes(bytes(content))
    with pytest.raises(Corrupt, match="does not match its checksum"):
        import_file(target, file)
    assert contents(target) == {}


@pytest.mark.parametrize("size", [1, 2, 9])
def test_compressed_export_truncated_between_pages_is_reported_as_truncated(
    full: Api, target: Table, tmp_path: Path, size: int
) -> None:
    file = tmp_path / "all.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(VIDEO_LINE).encode() + b"\n") + gzip.compress(b"{}\n")[:size])
    with pytest.raises(Damaged, match="is truncated after line 1"):
        import_file(target, file)


def test_line_with_keys_or_index_attributes_is_refused(table: Table, tmp_path: Path) -> None:
    run = import_lines(table, tmp_path, [VIDEO_LINE | {"rel": "FEED"}, VIDEO_LINE | {"pk": "VIDEO#x"}])
    assert {reason for _, reason in run.refused} == {"the line has keys or index attributes, which the import creates"}
    assert contents(table) == {}


def test_rating_or_entry_without_its_parent_is_refused(table: Table, tmp_path: Path) -> None:
    rating = {"entity": "Rating", "videoId": VIDEO_ID, "userId": "bob", "value": 5, "ratedAt": 5}
    entry = {"entity": "Entry", "playlistId": LIST_ID, "videoId": VIDEO_ID, "rank": "V00000", "addedAt": 5}
    run = import_lines(table, tmp_path, [rating, entry])
    assert run.refused == [(1, "the video does not exist"), (2, "the playlist does not exist")]
    assert contents(table) == {}


def test_episode_is_listed_for_any_spelling_of_its_series_id(api: Api, tmp_path: Path) -> None:
    series = str(api.publish("alice")["videoId"])
    line = VIDEO_LINE | {"visibility": "public", "userId": "alice", "seriesId": series.upper(), "season": 1}
    assert import_lines(api.table, tmp_path, [line]).outcomes == {"created": 1}
    items = api.get(f"/v1/videos/{series}/episodes").json["items"]
    assert [item["video"]["videoId"] for item in items] == [VIDEO_ID]


def test_handwritten_lines_need_no_versions(api: Api, tmp_path: Path) -> None:
    entries = [
        {"entity": "Rating", "videoId": VIDEO_ID, "userId": "bob", "value": 5, "ratedAt": 5},
        VIDEO_LINE | {"visibility": "public", "tags": ["a"]},
        {"entity": "Credit", "videoId": VIDEO_ID, "personId": "nm1", "ordering": 1, "roles": [{"category": "self"}]},
        {"entity": "Entry", "playlistId": LIST_ID, "videoId": VIDEO_ID, "rank": "V00000", "addedAt": 5},
        {"entity": "Playlist", "playlistId": LIST_ID, "userId": "bob", "title": "T", "createdAt": 5},
    ]
    assert import_lines(api.table, tmp_path, entries).outcomes == {"created": 5}
    assert import_lines(api.table, tmp_path, entries).outcomes == {"unchanged": 5}
    settle(api.table)
    assert api.get(f"/v1/videos/{VIDEO_ID}/rating").json["votes"] == 1
    assert len(api.get("/v1/videos", query="tag=A").json["items"]) == 1
    assert api.post(f"/v1/playlists/{LIST_ID}/entries", {"videoId": api.publish()["videoId"]}, user="bob").status == 201
    assert api.get(f"/v1/playlists/{LIST_ID}", user="bob").json["entryCount"] == 2
    assert api.put(f"/v1/videos/{VIDEO_ID}/rating", {"value": 6}, user="bob").json["average"] == 6


def test_item_that_exists_and_differs_is_skipped(full: Api, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.jsonl")
    full.patch(f"/v1/videos/{VIDEO_ID}", {"title": "Newer"})
    full.put(f"/v1/videos/{VIDEO_ID}/rating", {"value": 1}, user="alice")
    before = contents(full.table)
    run = import_file(full.table, tmp_path / "all.jsonl")
    assert {reason for _, reason in run.refused} == {"already exists and differs: skipped"}
    assert run.outcomes == {"unchanged": 17, "skipped": 2}
    assert contents(full.table) == before


def test_import_skips_a_video_that_is_created_concurrently(api: Api, tmp_path: Path) -> None:
    def between(operation: str, _: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        if operation == "PutItem":
            undo()
            api.create("admin", videoId=VIDEO_ID, title="Newer")
        return send()

    undo = wire.intercept(api.table.client, between)
    run = import_lines(api.table, tmp_path, [VIDEO_LINE])
    assert run.refused == [(1, "already exists and differs: skipped")]
    assert api.get(f"/v1/videos/{VIDEO_ID}", user="admin").json["title"] == "Newer"


def test_thousands_of_ratings_are_imported_in_few_transactions(api: Api, tmp_path: Path) -> None:
    ratings = [{"entity": "Rating", "videoId": VIDEO_ID, "userId": f"user-{n}", "value": n % 10 + 1, "ratedAt": n} for n in range(130)]  # fmt: skip
    with record_operations(api.table.client) as operations:
        import_lines(api.table, tmp_path, [VIDEO_LINE, *ratings])
    assert [operation.name for operation in operations].count("TransactWriteItems") == 3
    settle(api.table)
    totals = api.table.get(RATING_TOTALS.key(videoId=VIDEO_ID)) or {}
    assert (totals["votes"], totals["sum"]) == (130, sum(n % 10 + 1 for n in range(130)))


def test_withdrawn_rating_is_imported(full: Api, tmp_path: Path) -> None:
    export(full.table, tmp_path / "all.jsonl")
    full.delete(f"/v1/videos/{VIDEO_ID}/rating", user="bob")
    assert import_file(full.table, tmp_path / "all.jsonl").outcomes["created"] == 1
    rating = full.get(f"/v1/videos/{VIDEO_ID}/rating", user="bob").json
    assert rating["own"] == {"value": 10, "like": True, "ratedAt": NOW}


def test_a_line_of_a_newer_release_is_refused(api: Api, tmp_path: Path) -> None:
    run = import_lines(api.table, tmp_path, [VIDEO_LINE | {"schemaVersion": SCHEMA_VERSION + 1}])
    assert [reason for _, reason in run.refused] == ["not a valid Video"]


def test_playlist_gets_only_its_valid_entries(api: Api, tmp_path: Path) -> None:
    entry = {"entity": "Entry", "playlistId": LIST_ID, "rank": "V00000", "addedAt": 5}
    run = import_lines(
        api.table,
        tmp_path,
        [
            {
                "entity": "Playlist",
                "playlistId": LIST_ID,
                "userId": "bob",
                "title": "T",
                "createdAt": 5,
                "entryCount": 9,
            },
            entry | {"videoId": VIDEO_ID},
            entry | {"videoId": VIDEO_ID, "rank": "V00001"},
            entry | {"videoId": "no uuid"},
        ],
    )
    assert run.refused == [(3, "the playlist already has this video"), (4, "not a valid Entry")]
    playlist = api.table.get(PLAYLIST.key(playlistId=LIST_ID)) or {}
    assert (playlist["entryCount"], playlist["lastRank"]) == (1, "V00000")
    assert api.table.get(MEMBERSHIP.key(playlistId=LIST_ID, videoId=VIDEO_ID))


def test_video_past_its_purge_time_is_not_imported(table: Table, tmp_path: Path) -> None:
    over = {"status": "deleted", "deletedAt": 5, "statusBeforeDelete": "ready", "purgeAt": NOW}
    run = import_lines(table, tmp_path, [VIDEO_LINE | over])
    assert run.refused == [(1, "has expired, and would be removed at once")]
    assert contents(table) == {}


def test_video_waiting_for_its_purge_is_not_replaced(table: Table, tmp_path: Path) -> None:
    """Test a video that waits for its purge. Otherwise a new video would have the child items of the old one."""
    waiting = {**VIDEO.key(videoId=VIDEO_ID), "videoId": VIDEO_ID, "purgeAt": 1}
    table.write(table.put(waiting))
    run = import_lines(table, tmp_path, [VIDEO_LINE])
    assert run.refused == [(1, "an earlier video with this id is still being removed: import it again later")]
    assert table.get(VIDEO.key(videoId=VIDEO_ID)) == waiting
