"""`python -m tools archive erase`: replaces a person's id in the audit archive and in the SQL tables.

The command is safe to repeat after an interruption. It rewrites all objects of the archive that contain the id. It
deletes all earlier versions that contain the id, and merges the rewritten objects into the SQL tables.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from shared.archive import parquet
from shared.archive.compactor import Compactor
from shared.archive_tables import CHANGED_FIELDS, CHANGES, RESULTS
from shared.aws.s3 import ObjectChanged, Objects, object_uri
from shared.core.changes import json_of
from shared.core.errors import Unavailable
from shared.history.trail import ARCHIVED
from shared.threads import map_threads

CONCURRENCY = 8
"""Maximum number of concurrent reads of objects."""
PAGE = 500
"""Number of objects that are read before the first of them is rewritten."""
MAX_ATTEMPTS = 5
"""Maximum attempts to rewrite an object, and to merge a day whose tables contain the id."""


class ErasureReceipt(NamedTuple):
    """Record of an erasure. It does not contain the id."""

    digest: str
    """SHA-256 of the id, with which the owner of the id can verify the receipt."""
    replacement: str
    """Text that replaces the id."""
    objects: int
    """Number of objects of the archive that were rewritten."""
    entries: int
    """Number of audit entries in them that contained the id."""
    versions: int
    """Number of earlier versions of objects that were deleted."""
    rows: int
    """Number of entries that were merged into the SQL tables."""
    is_complete: bool
    """Whether neither the archive nor the SQL tables contained the id after the erasure."""


class Eraser:
    """Erasure of one person from the archive bucket and the SQL tables."""

    def __init__(self, objects: Objects, archive: str, analytics: str, compactor: Compactor, id_: str) -> None:
        self._objects, self._archive, self._analytics, self._compactor = objects, archive, analytics, compactor
        self._id = id_
        self._replacement = f"erased-{secrets.token_hex(8)}"

    def run(self, *, dry_run: bool = False) -> ErasureReceipt:
        """Erase the person, and return the receipt. With `dry_run`, count the objects and entries, and write nothing."""
        objects = entries = versions = rows = 0
        for key, data, etag in self._sources():
            found = self._rewritten(data)[1]
            if found and not dry_run:
                found = self._rewrite(key, data, etag)
            objects, entries = objects + bool(found), entries + found
        is_complete = False
        if not dry_run:
            versions = self._delete_versions()
            # All days, because an interrupted run may have rewritten objects without merging them.
            rows = self._compactor.run(days=self._compactor.days()).entries
            is_clean = self._clean_tables()
            # Results of earlier queries may contain the id.
            self._objects.delete_prefix(self._analytics, RESULTS)
            is_complete = is_clean and not any(self._rewritten(data)[1] for _, data, _ in self._sources())
        digest = hashlib.sha256(self._id.encode()).hexdigest()
        return ErasureReceipt(digest, self._replacement, objects, entries, versions, rows, is_complete)

    def _sources(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield the key, the content and the ETag of all objects of the archive."""
        keys = [source.key for source in self._objects.list_objects(self._archive, ARCHIVED)]
        for start in range(0, len(keys), PAGE):
            yield from map_threads(self._load, keys[start : start + PAGE], CONCURRENCY)

    def _load(self, key: str) -> tuple[str, bytes, str]:
        return (key, *self._objects.load(object_uri(self._archive, key)))

    def _rewrite(self, key: str, data: bytes, etag: str) -> int:
        """Replace an object by its lines without the id, and return the number of entries that contained it.

        A retry of the audit function may replace the object concurrently. Then the new content is rewritten.
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
        raise Unavailable("Another writer replaces the object.")

    def _clean_tables(self) -> bool:
        """Merge all objects of the days whose tables contain the id again. Returns whether no table contains it.

        Earlier versions of the compactor could overwrite new rows by old rows.
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
        """Return the days of rows that contain the id as author or credited person, or as the value of a field."""
        days = set()
        fields = "author = $id OR old_value = $id OR new_value = $id"
        with TemporaryDirectory() as folder:
            file = Path(folder) / "part.parquet"
            for table, condition in ((CHANGES, "author = $id OR person_id = $id"), (CHANGED_FIELDS, fields)):
                for found in self._objects.list_objects(self._analytics, table.prefix):
                    self._objects.copy_to(object_uri(self._analytics, found.key), file)
                    if parquet.has_rows(file, condition, {"id": self._id}):
                        days.add(found.key.split("day=")[1].split("/")[0])
        return days

    def _rewritten(self, data: bytes) -> tuple[bytes, int]:
        """Return the lines of an object without the id, and the number of entries that contained it."""
        if self._id.encode() not in data and json_of(self._id).strip(b'"') not in data:
            return data, 0
        lines, found = [], 0
        for line in data.splitlines():
            entry = json.loads(line)
            erased = self._erased(entry)
            found += erased != entry
            lines.append(json_of(erased) if erased != entry else line)
        return b"".join(line + b"\n" for line in lines), found

    def _erased(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return an audit entry without the id: as author, as credited person, and in old and new values.

        The name of an erased credited person is also replaced.
        """
        erased = {
            name: self._replaced(value) if name in ("by", "personId", "changes") else value
            for name, value in entry.items()
        }
        if entry.get("personId") == self._id:
            erased["changes"] = [
                change | {side: self._replacement for side in ("from", "to") if side in change}
                if change["field"] == "/name"
                else change
                for change in erased.get("changes", ())
            ]
        return erased

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._replaced(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._replaced(member) for member in value]
        return self._replacement if value == self._id else value

    def _delete_versions(self) -> int:
        """Delete the earlier versions of objects that contain the id, and return their number."""
        client, deleted = self._objects.client, 0
        pages = client.get_paginator("list_object_versions").paginate(Bucket=self._archive, Prefix=ARCHIVED)
        for version in (version for page in pages for version in page.get("Versions", ()) if not version["IsLatest"]):
            named: Any = {"Bucket": self._archive, "Key": version["Key"], "VersionId": version["VersionId"]}
            if self._rewritten(client.get_object(**named)["Body"].read())[1]:
                client.delete_object(**named)
                deleted += 1
        return deleted
