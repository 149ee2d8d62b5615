"""`python -m tools archive erase`: replaces a person's id in the audit archive and in the SQL tables.

The command is safe to repeat after an interruption. It rewrites the objects of the archive that have the id as author,
credited person or owner. It deletes their earlier versions, and merges the rewritten objects into the SQL tables. It
also replaces the id in the snapshots of videos.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from shared.archive import parquet
from shared.archive.compactor import Compactor, replace_partition
from shared.archive.snapshots import SUMMARY
from shared.archive_tables import CHANGED_FIELDS, CHANGES, EXPORTS, RESULTS, STAGED, VIDEOS
from shared.aws.s3 import ObjectChanged, ObjectMissing, Objects, object_uri
from shared.core.changes import json_of
from shared.core.errors import Unavailable
from shared.history.trail import ARCHIVED
from shared.threads import map_threads

CONCURRENCY = 8
"""Maximum number of concurrent reads of objects."""
PAGE = 500
"""Number of objects in a batch. The command reads a batch, then begins to rewrite its objects."""
USER_FIELD = "/userId"
"""JSON Pointer of the audited field that contains the id of a user."""
REPLACEMENT = re.compile(r"erased-[0-9a-f]{16}")
"""Pattern of the texts that replace ids."""
MAX_ATTEMPTS = 5
"""Maximum attempts to rewrite an object, and to merge a day for which the tables contain the id."""


class ErasureReceipt(NamedTuple):
    """Record of an erasure. It does not contain the id."""

    digest: str
    """SHA-256 of the id, with which the owner of the id can verify the receipt."""
    replacement: str
    """Text that replaces the id."""
    objects: int
    """Number of rewritten objects of the archive. For a dry run, number of objects that a run would rewrite."""
    entries: int
    """Number of audit entries that contained the id, in the objects that `objects` counts."""
    versions: int
    """Number of earlier object versions that were deleted because they contained the id."""
    rows: int
    """Number of entries that were merged into the SQL tables."""
    snapshots: int
    """Number of rewritten snapshots. A snapshot has the data of all videos at one time."""
    mentions: int
    """Number of objects whose text still contains the id, for example in a title or as a part of another id."""
    is_complete: bool
    """Whether the erasure is complete: the archive and the SQL tables contain the id at most in the texts that
    `mentions` counts. `False` for a dry run."""


class _SnapshotExpired(Exception):
    """The snapshot does not exist any more."""


class Eraser:
    """Erasure of one person from the archive bucket and the SQL tables."""

    def __init__(
        self,
        objects: Objects,
        archive: str,
        analytics: str,
        compactor: Compactor,
        id_: str,
        replacement: str | None = None,
    ) -> None:
        """Create an erasure of the id `id_`.

        `replacement` is the text that replaces the id. By default, it is random. To continue an interrupted run, pass
        the text that the run used.
        """
        self._objects, self._archive, self._analytics, self._compactor = objects, archive, analytics, compactor
        self._id = id_
        self.replacement = replacement or f"erased-{secrets.token_hex(8)}"

    def run(self, *, dry_run: bool = False) -> ErasureReceipt:
        """Erase the person, and return the receipt. With `dry_run`, count the objects and entries, and write nothing."""
        objects = entries = versions = rows = mentions = snapshots = 0
        for key, data, etag in self._sources():
            lines, found = self._rewritten(data)
            mentions += dry_run and self._is_mentioned(lines)
            if found and not dry_run:
                found = self._rewrite(key, data, etag)
            objects, entries = objects + bool(found), entries + found
        is_complete = False
        if not dry_run:
            versions = self._delete_versions()
            # All days, because an interrupted run may have rewritten objects without merging them.
            rows = self._compactor.run(days=self._compactor.days()).entries
            is_clean = self._clean_tables()
            # Unfinished snapshots and results of earlier queries may contain the id. The summaries of exports are deleted
            # first, because the compactor converts an export only if it has a summary.
            exported = [found.key for found in self._objects.list_objects(self._analytics, EXPORTS)]
            self._objects.delete(self._analytics, [key for key in exported if key.endswith(f"/{SUMMARY}")])
            for prefix in (EXPORTS, STAGED, RESULTS):
                self._objects.delete_prefix(self._analytics, prefix)
            snapshots = sum(map(self._rewrite_snapshot, self._snapshots()))
            for _, data, _ in self._sources():
                is_clean &= not self._rewritten(data)[1]
                mentions += self._is_mentioned(data)
            is_complete = is_clean and not self._snapshots()
        digest = hashlib.sha256(self._id.encode()).hexdigest()
        return ErasureReceipt(
            *(digest, self.replacement, objects, entries, versions, rows, snapshots, mentions, is_complete)
        )

    def _sources(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield the key, the content and the ETag of all objects of the archive."""
        keys = [source.key for source in self._objects.list_objects(self._archive, ARCHIVED)]
        for start in range(0, len(keys), PAGE):
            yield from map_threads(self._load, keys[start : start + PAGE], CONCURRENCY)

    def _load(self, key: str) -> tuple[str, bytes, str]:
        return (key, *self._objects.load(object_uri(self._archive, key)))

    def _rewrite(self, key: str, data: bytes, etag: str) -> int:
        """Replace the id in the lines of an object, and return the number of entries that contained the id.

        A retry of the audit function may replace the object concurrently. Then this method rewrites the new content.
        Raises Unavailable after MAX_ATTEMPTS.
        """
        entries = 0
        for _ in range(MAX_ATTEMPTS):
            lines, found = self._rewritten(data)
            entries = max(entries, found)
            if not found:  # the response to the previous attempt was lost, or the new content has no such entry
                return entries
            try:
                self._objects.replace(self._archive, key, lines, "application/x-ndjson", etag)
            except ObjectChanged:
                _, data, etag = self._load(key)
            else:
                return entries
        raise Unavailable("Another writer is replacing the object.")

    def _clean_tables(self) -> bool:
        """Remove the id from the SQL tables: merge the archive's objects again for each day with rows that contain the
        id. Returns whether the tables then lack the id.

        Such rows can exist after the rewritten objects were merged, because earlier versions of the compactor could
        overwrite new rows by old rows.
        """
        for _ in range(MAX_ATTEMPTS):
            days = self._days_of_rows()
            if not days:
                return True
            # A batch that begins before midnight also has entries of the next day.
            days |= {f"{date.fromisoformat(day) - timedelta(days=1)}" for day in days}
            for day in days:
                self._compactor.forget(day)
            self._compactor.run(days=sorted(days))
        return False

    def _days_of_rows(self) -> set[str]:
        """Return the days of rows that contain the id as author or credited person, or as a value of USER_FIELD."""
        days = set()
        author = "author_kind = 'person' AND author = $id"
        fields = f"{author} OR field = '{USER_FIELD}' AND (old_value = $id OR new_value = $id)"
        with TemporaryDirectory() as folder:
            file = Path(folder) / "part.parquet"
            for table, condition in ((CHANGES, f"{author} OR person_id = $id"), (CHANGED_FIELDS, fields)):
                for found in self._objects.list_objects(self._analytics, table.prefix):
                    self._objects.copy_to(object_uri(self._analytics, found.key), file)
                    if parquet.has_rows(file, condition, {"id": self._id}):
                        days.add(found.key.split("day=")[1].split("/")[0])
        return days

    def _snapshots(self) -> list[str]:
        """Return the keys of the snapshots that contain a video of the user."""
        keys = []
        with TemporaryDirectory() as folder:
            file = Path(folder) / "part.parquet"
            for found in self._objects.list_objects(self._analytics, VIDEOS.prefix):
                with suppress(ObjectMissing):  # the lifecycle of the bucket has deleted it
                    self._objects.copy_to(object_uri(self._analytics, found.key), file)
                    if parquet.has_rows(file, "user_id = $id", {"id": self._id}):
                        keys.append(found.key)
        return keys

    def _rewrite_snapshot(self, key: str) -> bool:
        """Replace the id in a snapshot, where it is the owner of videos. Returns `False` if the bucket's lifecycle rule
        has already deleted the snapshot."""

        def write(existing: Path | None, output: Path) -> None:
            if existing is None:
                raise _SnapshotExpired
            user = "if(user_id = $id, $replacement, user_id) AS user_id"
            values = {"id": self._id, "replacement": self.replacement}
            inputs = {"existing": f"read_parquet('{existing}')"}
            # All columns of the file, because a snapshot of an earlier release lacks some columns of the table.
            parquet.write_result(output, f"SELECT * REPLACE ({user}) FROM existing", inputs, values)

        try:
            replace_partition(self._objects, self._analytics, key, write, check=lambda: None)
        except _SnapshotExpired:
            return False
        return True

    def _rewritten(self, data: bytes) -> tuple[bytes, int]:
        """Return the lines of an object with the id replaced, and the number of entries that contained the id."""
        if not self._is_mentioned(data):
            return data, 0
        lines, found = [], 0
        for line in data.splitlines():
            entry = json.loads(line)
            erased = self._erased(entry)
            found += erased != entry
            lines.append(json_of(erased) if erased != entry else line)
        return b"".join(line + b"\n" for line in lines), found

    def _erased(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return an audit entry in which the id is replaced as author, as credited person and in USER_FIELD.

        The name of an erased credited person is also replaced. Equal texts in other fields are unchanged, because
        titles and categories of other users can be equal to an id.
        """
        erased = dict(entry)
        if entry["by"] == {"kind": "person", "id": self._id}:
            erased["by"] = entry["by"] | {"id": self.replacement}
        is_credited = entry.get("personId") == self._id
        if is_credited:
            erased["personId"] = self.replacement
        if "changes" in entry:
            erased["changes"] = [self._erased_change(change, is_credited) for change in entry["changes"]]
        return erased

    def _erased_change(self, change: Mapping[str, Any], is_credited: bool) -> dict[str, Any]:
        sides = [side for side in ("from", "to") if side in change]
        if is_credited and change["field"] == "/name":
            return {**change, **dict.fromkeys(sides, self.replacement)}
        if change["field"] == USER_FIELD:
            return {**change, **{side: self.replacement for side in sides if change[side] == self._id}}
        return dict(change)

    def _is_mentioned(self, data: bytes) -> bool:
        """Return whether the text of an object contains the id, also as part of a longer text."""
        return self._id.encode() in data or json_of(self._id).strip(b'"') in data

    def _delete_versions(self) -> int:
        """Delete each earlier version of an object if that version contains the id. Returns the number of deleted
        versions."""
        listed = list(self._objects.list_earlier_versions(self._archive, ARCHIVED))
        return sum(map_threads(self._delete_version, listed, CONCURRENCY))

    def _delete_version(self, named: tuple[str, str]) -> bool:
        key, version = named
        try:
            data, _ = self._objects.load(object_uri(self._archive, key), version)
        except ObjectMissing:  # the lifecycle of the bucket has deleted it
            return False
        has_id = self._rewritten(data)[1] > 0
        if has_id:
            self._objects.delete_version(self._archive, key, version)
        return has_id
