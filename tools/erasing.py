"""`python -m tools archive erase`: replaces a person's id in the audit archive and in the SQL tables.

The command is safe to repeat after an interruption. It rewrites all objects of the archive that contain the id. It
deletes all earlier versions that contain the id, and merges the rewritten objects into the SQL tables.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shared.archive.compactor import Compactor
from shared.archive_tables import RESULTS
from shared.aws.s3 import ListedObject, Objects, object_uri
from shared.core.changes import json_of
from shared.history.trail import ARCHIVED
from shared.threads import map_threads

CONCURRENCY = 8
"""Maximum number of concurrent reads of objects."""
PAGE = 500
"""Number of objects that are read before the first of them is rewritten."""


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
    """Whether no object of the archive contained the id after the erasure."""


class Eraser:
    """Erasure of one person from the archive bucket and the SQL tables."""

    def __init__(self, objects: Objects, archive: str, analytics: str, compactor: Compactor, id_: str) -> None:
        self._objects, self._archive, self._analytics, self._compactor = objects, archive, analytics, compactor
        self._id = id_
        self._replacement = f"erased-{secrets.token_hex(8)}"

    def run(self, *, dry_run: bool = False) -> ErasureReceipt:
        """Erase the person, and return the receipt. With `dry_run`, count the objects and entries, and write nothing."""
        objects = entries = versions = rows = 0
        for source, data in self._sources():
            lines, found = self._rewritten(data)
            if not found:
                continue
            objects, entries = objects + 1, entries + found
            if not dry_run:
                # Objects are replaced only by a redelivery of their batch, within a day of the change.
                self._objects.put(self._archive, source.key, lines, "application/x-ndjson")
        if not dry_run:
            versions = self._delete_versions()
            # All days, because an interrupted run may have rewritten objects without merging them.
            rows = self._compactor.run(days=sorted({_day(source) for source in self._listed()})).entries
            # Results of earlier queries may contain the id.
            self._objects.delete_prefix(self._analytics, RESULTS)
        is_complete = not dry_run and not any(self._rewritten(data)[1] for _, data in self._sources())
        digest = hashlib.sha256(self._id.encode()).hexdigest()
        return ErasureReceipt(digest, self._replacement, objects, entries, versions, rows, is_complete)

    def _listed(self) -> Iterator[ListedObject]:
        return self._objects.list_objects(self._archive, ARCHIVED)

    def _sources(self) -> Iterator[tuple[ListedObject, bytes]]:
        """Yield all objects of the archive with their content."""
        listed = list(self._listed())
        for start in range(0, len(listed), PAGE):
            page = listed[start : start + PAGE]
            uris = [(object_uri(self._archive, source.key), source.size) for source in page]
            yield from zip(
                page, map_threads(lambda uri: self._objects.read(uri[0], 0, uri[1]), uris, CONCURRENCY), strict=True
            )

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


def _day(source: ListedObject) -> str:
    return "-".join(source.key.removeprefix(ARCHIVED).split("/")[:3])
