"""Erasure of a person from the archive: ids as author, credited person and value, and repetition after a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from local.testbed.harness import NOW
from local.testbed.lean_moto import create_buckets
from shared.archive import parquet
from shared.archive.compactor import Compactor
from shared.archive_tables import CHANGES, VIDEOS
from shared.aws.s3 import Objects, object_uri
from shared.core.attributes import Item
from shared.core.errors import Unavailable
from shared.core.periods import day_of
from shared.history.trail import ARCHIVED, Archive
from tools.__main__ import main
from tools.erasing import Eraser

ARCHIVE, ANALYTICS = "archive", "analytics"


def _entry(sequence: int, author: str = "bob", **more: Any) -> Item:
    by = {"kind": "person", "id": author}
    common = {"sequence": str(sequence), "videoId": "v", "entity": "video", "action": "changed", "by": by}
    return common | {"at": NOW * 1000, "changes": []} | more


def _eraser(objects: Objects, id_: str) -> Eraser:
    return Eraser(objects, ARCHIVE, ANALYTICS, Compactor(objects, ARCHIVE, ANALYTICS, lambda: NOW), id_)


def _archived(objects: Objects) -> str:
    listed = list(objects.list_objects(ARCHIVE, ARCHIVED))
    return "".join(objects.read(object_uri(ARCHIVE, found.key), 0, found.size).decode() for found in listed)


@pytest.fixture
def archive(objects: Objects) -> Archive:
    """Return an empty archive whose bucket retains replaced objects."""
    create_buckets(ARCHIVE, ANALYTICS)
    objects.client.put_bucket_versioning(Bucket=ARCHIVE, VersioningConfiguration={"Status": "Enabled"})
    return Archive(objects, ARCHIVE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("erased", "entry"),
    [
        ("alice", _entry(1, "alice")),
        ('é"1', _entry(1, 'é"1')),
        ("alice", _entry(1, changes=[{"field": "/userId", "from": "alice", "to": "bob"}])),
        ("nm1", _entry(1, entity="credit", personId="nm1", changes=[{"field": "/name", "to": "Ada"}])),
    ],
)
def test_id_is_replaced_wherever_an_entry_has_it(objects: Objects, archive: Archive, erased: str, entry: Item) -> None:
    archive.write([entry, _entry(2, "alicia")])
    receipt = _eraser(objects, erased).run()
    assert (receipt.objects, receipt.entries, receipt.versions, receipt.is_complete) == (1, 1, 1, True)
    content = _archived(objects)
    assert receipt.replacement in content
    assert f'"{erased}"' not in content
    assert "Ada" not in content
    assert '"alicia"' in content
    assert erased not in "".join(map(str, receipt))
    assert receipt.mentions == 0


def test_equal_text_of_another_field_is_unchanged_and_counted_as_mention(objects: Objects, archive: Archive) -> None:
    title = _entry(1, changes=[{"field": "/title", "from": "public", "to": "A"}, {"field": "/extra", "to": ["public"]}])
    archive.write([title, _entry(2, by={"kind": "service", "id": "public"})])
    before = _archived(objects)
    dry, receipt = _eraser(objects, "public").run(dry_run=True), _eraser(objects, "public").run()
    assert (receipt.objects, receipt.mentions, receipt.is_complete) == (0, 1, True)
    assert dry.mentions == 1
    assert _archived(objects) == before


@pytest.mark.slow
def test_repeated_erasure_uses_the_given_replacement(objects: Objects, archive: Archive) -> None:
    archive.write([_entry(1, "alice")])
    first = _eraser(objects, "alice")
    first.run()
    archive.write([_entry(2, "alice")])
    compactor = Compactor(objects, ARCHIVE, ANALYTICS, lambda: NOW)
    Eraser(objects, ARCHIVE, ANALYTICS, compactor, "alice", first.replacement).run()
    assert {json.loads(line)["by"]["id"] for line in _archived(objects).splitlines()} == {first.replacement}


def test_replacement_that_no_run_has_printed_is_refused() -> None:
    assert main(["archive", "erase", "--table", "VideoMetadata", "--id", "alice", "--replacement", "alice"]) == 1


def test_busy_version_requests_are_repeated(
    objects: Objects, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write([_entry(1, "alice")])
    for name in ("list_object_versions", "delete_object"):
        request, losses = getattr(objects.client, name), iter([True])

        def lossy(request: Any = request, losses: Any = losses, **named: Any) -> Any:
            if next(losses, False):
                raise EndpointConnectionError(endpoint_url="s3")
            return request(**named)

        monkeypatch.setattr(objects.client, name, lossy)
    receipt = _eraser(objects, "alice").run()
    assert (receipt.versions, receipt.is_complete) == (1, True)


def test_erasure_that_finds_nothing_changes_nothing(objects: Objects, archive: Archive) -> None:
    archive.write([_entry(1, "alicia")])
    before = _archived(objects)
    assert _eraser(objects, "alice").run().objects == 0
    assert _archived(objects) == before


@pytest.mark.slow
def test_interrupted_erasure_is_completed_by_its_repetition(objects: Objects, archive: Archive) -> None:
    for sequence in (1, 2):
        archive.write([_entry(sequence, "alice")])
    Compactor(objects, ARCHIVE, ANALYTICS, lambda: NOW).run()
    objects.put(ANALYTICS, "results/q1.csv", b"alice", "text/csv")
    fallible = Objects(objects.client, attempts=1)

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("The object store is busy.")

    for request in ("replace", "replace_file", "delete_prefix"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fallible, request, fail)
            with pytest.raises(Unavailable):
                _eraser(fallible, "alice").run()
    assert _eraser(objects, "alice").run().is_complete
    assert "alice" not in _archived(objects)
    for found in objects.client.list_object_versions(Bucket=ARCHIVE)["Versions"]:
        version = objects.client.get_object(Bucket=ARCHIVE, Key=found["Key"], VersionId=found["VersionId"])
        assert b"alice" not in version["Body"].read()
    assert list(objects.list_objects(ANALYTICS, "results/")) == []
    assert _pending(objects) == []


def test_erasure_rewrites_a_batch_that_becomes_longer_after_it_was_read(
    objects: Objects, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write([_entry(1, "alice")])
    replace, retries = objects.replace, iter([True])

    def overtaken(*arguments: Any) -> None:
        if next(retries, False):
            archive.write([_entry(1, "alice"), _entry(2, "alice"), _entry(3)])
        replace(*arguments)

    monkeypatch.setattr(objects, "replace", overtaken)
    receipt = _eraser(objects, "alice").run()
    assert (receipt.entries, receipt.rows, receipt.is_complete) == (2, 3, True)
    assert [json.loads(line)["sequence"] for line in _archived(objects).splitlines()] == ["1", "2", "3"]
    assert "alice" not in _archived(objects)


@pytest.mark.slow
def test_rows_with_the_id_that_the_archive_lacks_are_merged_again(objects: Objects, archive: Archive) -> None:
    archive.write([_entry(1, "alice")])
    compactor = Compactor(objects, ARCHIVE, ANALYTICS, lambda: NOW)
    compactor.run()
    key = CHANGES.key(entity="video", day=day_of(NOW))
    stale = objects.load(object_uri(ANALYTICS, key))[0]
    _eraser(objects, "alice").run()
    objects.put(ANALYTICS, key, stale, "")
    assert compactor.run() == (0, 0)
    eraser = _eraser(objects, "alice")
    assert eraser._days_of_rows() == {day_of(NOW)}
    assert eraser.run().is_complete
    assert eraser._days_of_rows() == set()


@pytest.mark.slow
def test_id_is_replaced_as_owner_in_snapshots_and_unfinished_work_is_deleted(
    objects: Objects, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, file, expired = tmp_path / "rows.jsonl", tmp_path / "part.parquet", VIDEOS.key(day="2026-06-11")
    parquet.write_rows(
        rows, [{"video_id": id_, "user_id": id_[0] + "'s", "title": "a's"} for id_ in ("a1", "b1", "a2")]
    )
    inputs = {"rows": parquet.rows_of(VIDEOS, rows)}
    for day, query in (
        ("2026-06-09", "FROM rows WHERE user_id = 'b''s'"),
        ("2026-06-10", "SELECT * EXCLUDE (version) FROM rows"),  # of a release without this column
        ("2026-06-11", "FROM rows"),
    ):
        parquet.write_result(file, query, inputs)
        objects.put_file(ANALYTICS, VIDEOS.key(day=day), file, "")
    for key in ("exports/x/data/1.json.gz", "staged/x/1.parquet"):
        objects.put(ANALYTICS, key, b"a's", "")
    eraser = _eraser(objects, "a's")
    find = eraser._snapshots

    def find_and_expire() -> list[str]:
        keys = find()
        objects.delete(ANALYTICS, [expired])
        return keys

    monkeypatch.setattr(eraser, "_snapshots", find_and_expire)
    receipt = eraser.run()
    assert (receipt.snapshots, receipt.objects, receipt.is_complete) == (1, 0, True)
    objects.copy_to(object_uri(ANALYTICS, VIDEOS.key(day="2026-06-10")), file)
    owners = parquet.select(file, "SELECT user_id, title FROM file")
    assert owners == [(receipt.replacement, "a's"), ("b's", "a's"), (receipt.replacement, "a's")]
    assert [*objects.list_objects(ANALYTICS, "exports/"), *objects.list_objects(ANALYTICS, "staged/")] == []


def _pending(objects: Objects) -> list[str]:
    """Return the keys of the archived objects that are not merged into the SQL tables."""
    day = day_of(NOW)
    return [source.key for source in Compactor(objects, ARCHIVE, ANALYTICS, lambda: NOW)._pending(day)]
