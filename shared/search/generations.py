"""Generations of the index: immutable files, a manifest per generation, and an item that points to the published
generation.

A builder writes its new files to `index/<generation>/`, then the manifest, then the pointer item. The conditional write
of the pointer publishes the generation. If the builder crashes before this write, no reader uses its files. A manifest
references unchanged files in the folders of earlier generations.

One builder works at a time. It holds a lease that a heartbeat renews, and each write of the pointer requires the lease.
A stalled builder therefore cannot overwrite a newer generation.

A rebuild stores its progress as a draft. A draft is a generation that only a builder reads, to resume the rebuild.
"""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.leases import LEASE, Lease, LeaseLost, fence, is_free, write_with_lease
from shared.aws.s3 import ListedObject, ObjectMissing, Objects, object_uri
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS
from shared.feed.log import LogCursor
from shared.schema import INDEX
from shared.search.document import FORM, NO_LIMITS, IndexLimits
from shared.threads import map_threads

if TYPE_CHECKING:
    from shared.search.engine import IndexCheckpoint
    from shared.search.tantivy_engine import IndexFile, TantivyEngine

FOLDER = "index/"
"""Key prefix of all index objects in the bucket."""
HEARTBEAT_SECONDS = 10
"""Seconds between two renewals of the lease during a build."""
LEASE_SECONDS = 4 * HEARTBEAT_SECONDS
"""Seconds until the lease of a crashed builder expires. A scheduled run then starts within a minute."""
KEPT_SECONDS = 3600
"""Minimum age, in seconds, at which an unreferenced object is deleted. A builder may be about to reference a younger
object, or a reader may be copying it."""
CONCURRENCY = 8
"""Maximum number of objects that are uploaded or downloaded concurrently."""
MAX_COPIES = 3
"""Maximum attempts to copy the newest generation, including the first. An attempt fails if the generation is deleted
during the copy."""
MAX_SIZES = 8
"""Maximum number of size samples in the pointer. The samples are at least a day apart, so they cover at least a
week."""

EngineName = Literal["embedded", "opensearch"]
"""Search engine of a deployment: Tantivy in each function instance, or an OpenSearch cluster."""

FOLDERS = "video-index-"
"""Prefix of the temporary folders with copies of the index."""
_MANIFEST = "manifest.json"
_KEY = INDEX.key()
NO_LEASE = Lease("", 0)
"""Empty lease, used when the pointer item stores none."""


class DamagedFile(Exception):
    """Error: a file does not match its manifest, or the manifest is malformed."""


class StoredFile(NamedTuple):
    """File of a generation: local name, object key, size and hash."""

    name: str
    key: str
    size: int
    """Size in bytes."""
    sha256: str


class SizeSample(NamedTuple):
    """Size of a published generation."""

    at: int
    """Time of the publication, in epoch seconds."""
    bytes: int


class Draft(NamedTuple):
    """Stored progress of an unfinished rebuild. The next builder resumes from it."""

    generation: str
    at: Item
    """Progress of the rebuild. shared/search/builder.py defines its format."""
    places: Mapping[str, LogCursor]
    """Position in the feed of the next change to consume, by log key."""


@dataclass(frozen=True)
class GenerationPointer:
    """Content of the pointer item: the published generation, the progress of an unfinished rebuild, and the lease."""

    generation: str | None = None
    """Name of the published generation. `None` if nothing was published yet."""
    form: int | None = None
    """Format version of the generation."""
    previous: str | None = None
    """Name of the previously published generation. Its files are retained, because readers may be copying them."""
    places: Mapping[str, LogCursor] = field(default_factory=dict)
    """Position in the feed of the next change to consume, by log key."""
    as_of: int = 0
    """Time in epoch milliseconds. The generation includes all changes before this time."""
    video_count: int = 0
    bytes: int = 0
    published_at: int = 0
    """Time of the publication, in epoch seconds."""
    draft: Draft | None = None
    """Progress of an unfinished rebuild. `None` if there is none, or if this builder cannot resume it because its
    format version or engine differs."""
    tidied_at: int = 0
    """Time of the last deletion of unreferenced objects, in epoch seconds."""
    lease: Lease = NO_LEASE
    sizes: Sequence[SizeSample] = ()
    """Sizes of at most MAX_SIZES generations that were published at least a day apart, oldest first."""
    limits: IndexLimits = NO_LIMITS
    """Limits of the deployment that published the generation."""
    rebuild_at: int = 0
    """Time at which an operator requested a rebuild, in epoch seconds. 0 if no rebuild was requested after the last
    published rebuild."""

    @property
    def growth(self) -> float | None:
        """Growth of the index in bytes a day, over the days in `sizes`. `None` if `sizes` covers less than a day."""
        if not self.sizes or self.published_at - self.sizes[0].at < DAY_SECONDS:
            return None
        first = self.sizes[0]
        return (self.bytes - first.bytes) * DAY_SECONDS / (self.published_at - first.at)

    @property
    def days_left(self) -> float | None:
        """Days until the index has its maximum size, at the present growth. `None` if the limit or the growth is
        unknown, or if the index does not grow."""
        growth = self.growth
        if not self.limits.bytes or growth is None or growth <= 0:
            return None
        return max(0.0, (self.limits.bytes - self.bytes) / growth)

    @classmethod
    def of(cls, item: Item | None, engine: EngineName = "embedded") -> "GenerationPointer":
        """Parse the pointer item. `None` means that the item does not exist yet.

        If the index has another engine than `engine`, it is omitted. The builder of `engine` then creates a new index.
        """
        if item is None:
            return cls()
        draft = item.get("draft")
        if draft and (draft.get("form") != FORM or draft.get("engine", "embedded") != engine):
            draft = None
        if item.get("engine", "embedded") != engine:
            item = {name: item[name] for name in LEASE if name in item}
        return cls(
            generation=item.get("generation"),
            form=item.get("form"),
            previous=item.get("previous"),
            places=_places(item),
            as_of=item.get("asOf", 0),
            video_count=item.get("films", 0),
            bytes=item.get("bytes", 0),
            published_at=item.get("publishedAt", 0),
            draft=Draft(draft["generation"], draft["at"], _places(draft)) if draft else None,
            tidied_at=item.get("tidiedAt", 0),
            lease=Lease.of(item) or NO_LEASE,
            sizes=tuple(SizeSample(*sample) for sample in item.get("sizes", ())),
            limits=IndexLimits(*item["limits"]) if "limits" in item else NO_LIMITS,
            rebuild_at=item.get("rebuildAt", 0),
        )

    @property
    def readable(self) -> str | None:
        """Name of the published generation; `None` if nothing is published, or if this release cannot read its format
        version."""
        return self.generation if self.form == FORM else None


class LocalCopy:
    """Local copy of a generation. The builder updates its copy in place.

    While the copy is complete, a file next to it stores the generation's name. If the file is missing, the generation
    is copied again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "engine"
        """Folder with the files of the index, which TantivyEngine opens."""
        self._origin = folder / "generation"

    @property
    def generation(self) -> str | None:
        """Name of the generation that was last copied to the folder or published from it.

        `None` if the folder has no complete copy.
        """
        with suppress(FileNotFoundError):
            return self._origin.read_text(encoding="utf-8")
        return None

    def keep(self, files: Iterable[StoredFile]) -> list[StoredFile]:
        """Delete all local files that do not match an entry of `files`.

        Returns the entries without a matching local file. No engine may have the folder open.
        """
        self.is_of(None)
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = {file.name: file for file in files}
        for path in self.folder.iterdir():
            if path.name in missing and _is(path, missing[path.name]):
                del missing[path.name]
            else:
                path.unlink()
        return list(missing.values())

    def is_of(self, generation: str | None) -> None:
        """Record that the folder has a complete copy of the generation. `None` records that the copy is incomplete."""
        if generation is None:
            self._origin.unlink(missing_ok=True)
            return
        unfinished = self._origin.with_suffix(".part")
        unfinished.write_text(generation, encoding="utf-8")
        os.replace(unfinished, self._origin)


class Heartbeat:
    """Context manager that calls `beat` every `seconds` seconds in a separate thread.

    >>> with Heartbeat(lambda: print("lease renewed"), seconds=60):
    ...     print("published")
    published
    """

    def __init__(self, beat: Callable[[], None], seconds: float = HEARTBEAT_SECONDS) -> None:
        self._beat, self._seconds = beat, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._beat()


class PointerStore:
    """Store of the pointer item: the published index, the progress of a rebuild, and the lease of the builder.

    Methods raise Unavailable if the table is busy.
    """

    def __init__(
        self,
        table: Table,
        clock: Callable[[], float] = time.time,
        limits: IndexLimits | None = None,
        engine: EngineName = "embedded",
    ) -> None:
        """Create the store for the indexes of `engine`. An index of another engine counts as missing.

        Each publication stores the index limits `limits` in the pointer. `None` keeps the limits that are stored there.
        """
        self._table, self._clock, self._limits, self._engine_name = table, clock, limits, engine

    def pointer(self) -> GenerationPointer:
        """Return the current pointer, with a consistent read."""
        return GenerationPointer.of(self._table.get(_KEY, consistent=True), self._engine_name)

    def lease(self) -> GenerationPointer | None:
        """Acquire the lease. Returns the pointer including the lease, or `None` if another builder holds it."""
        now = int(self._clock())
        mine = Lease.new(now + LEASE_SECONDS)
        with suppress(LeaseLost):
            self._write(mine, change_between({}, mine.attributes), condition=is_free(now, 2 * LEASE_SECONDS))
            pointer = self.pointer()
            return pointer if pointer.lease == mine else None
        return None

    def renew(self, held: GenerationPointer) -> GenerationPointer:
        """Extend the lease to LEASE_SECONDS from now. Raises LeaseLost."""
        until = int(self._clock()) + LEASE_SECONDS
        self._write(held.lease, Expression.of("SET #leaseUntil = :until", until=until))
        return replace(held, lease=held.lease._replace(until=until))

    def release(self, held: GenerationPointer) -> None:
        """Release the lease, so that the next builder can start immediately."""
        with suppress(LeaseLost):
            self._write(held.lease, Expression.of("REMOVE #lease, #leaseUntil"))

    def drop_draft(self, held: GenerationPointer) -> GenerationPointer:
        """Discard the stored progress of a rebuild that cannot be resumed. Raises LeaseLost."""
        self._write(held.lease, Expression.of("REMOVE #draft"))
        return replace(held, draft=None)

    def request_rebuild(self) -> None:
        """Request that the next run of the builder rebuilds the index from the start.

        A current run loses its lease and publishes nothing, and its progress is discarded. Otherwise that run, or its
        continuation, would complete this request, although it began before the request.
        """
        request = Expression.of("SET #rebuildAt = :now REMOVE #lease, #leaseUntil, #draft", now=int(self._clock()))
        self._table.write(self._table.update(_KEY, request))

    def point_to(
        self,
        held: GenerationPointer,
        generation: str,
        checkpoint: "IndexCheckpoint",
        *,
        video_count: int,
        size: int = 0,
    ) -> GenerationPointer:
        """Publish a generation of `size` bytes (0 if unknown), and remove the draft. Raises LeaseLost, and then
        publishes nothing."""
        previous = held.previous if generation == held.generation else held.generation
        new = replace(
            held,
            generation=generation,
            form=FORM,
            previous=previous,
            places=checkpoint.places,
            as_of=checkpoint.as_of,
            video_count=video_count,
            bytes=size,
            published_at=int(self._clock()),
            draft=None,
            limits=held.limits if self._limits is None else self._limits,
            rebuild_at=0,
        )
        new = replace(new, sizes=with_sample(held.sizes, SizeSample(new.published_at, new.bytes)))
        attributes: Item = {
            "engine": self._engine_name,
            "generation": generation,
            "form": FORM,
            "places": {log: list(place) for log, place in new.places.items()},
            "asOf": new.as_of,
            "films": new.video_count,
            "bytes": new.bytes,
            "publishedAt": new.published_at,
            "sizes": [list(sample) for sample in new.sizes],
            "limits": list(new.limits),
            **({"previous": previous} if previous else {}),
        }
        sets = ", ".join(f"#{name} = :{name}" for name in attributes)
        self._write(held.lease, Expression.of(f"SET {sets} REMOVE #draft, #rebuildAt", **attributes))
        return new

    def store_draft(
        self, held: GenerationPointer, generation: str, at: Item, checkpoint: "IndexCheckpoint"
    ) -> GenerationPointer:
        """Store the progress of a rebuild. Raises LeaseLost."""
        draft = {
            "engine": self._engine_name,
            "generation": generation,
            "form": FORM,
            "at": at,
            "places": {log: list(place) for log, place in checkpoint.places.items()},
        }
        self._write(held.lease, Expression.of("SET #draft = :draft", draft=draft))
        return replace(held, draft=Draft(generation, at, checkpoint.places))

    def begin_tidy(self, held: GenerationPointer) -> GenerationPointer | None:
        """Store the current time as the time of the last deletion of unreferenced data, and return the new pointer. If
        the stored time is less than KEPT_SECONDS ago, returns `None` and writes nothing.

        The write verifies the lease, so no other builder can publish data that is about to be deleted. Raises
        LeaseLost.
        """
        now = int(self._clock())
        if now - held.tidied_at < KEPT_SECONDS:
            return None
        self._write(held.lease, Expression.of("SET #tidiedAt = :now", now=now))
        return replace(held, tidied_at=now)

    def _write(self, lease: Lease, change: Expression, *, condition: Expression | None = None) -> None:
        """Update the pointer item on `condition`, or by default on condition that the lease is held. Raises LeaseLost
        if the condition is false."""
        write = self._table.update(_KEY, change, condition=condition or fence(lease=lease.id))
        write_with_lease(self._table, [write], lease.attributes)


class Generations(PointerStore):
    """Store of generations of the embedded index: the pointer in the table, and the objects in the bucket.

    Methods raise Unavailable if either service is busy.
    """

    def __init__(
        self,
        table: Table,
        objects: Objects,
        bucket: str,
        clock: Callable[[], float] = time.time,
        limits: IndexLimits | None = None,
    ) -> None:
        """Create the store. Each publication stores the index limits `limits` in the pointer. `None` keeps the limits
        that are stored there."""
        super().__init__(table, clock, limits)
        self._objects, self._bucket = objects, bucket

    def publish(
        self,
        held: GenerationPointer,
        copy: LocalCopy,
        files: Sequence["IndexFile"],
        checkpoint: "IndexCheckpoint",
        video_count: int,
    ) -> GenerationPointer:
        """Publish a local copy as the new generation, and remove the draft. Raises LeaseLost, and then publishes
        nothing."""
        generation, stored = self._saved(held, copy, files)
        size = sum(file.size for file in stored)
        new = self.point_to(held, generation, checkpoint, video_count=video_count, size=size)
        copy.is_of(generation)
        return new

    def save_draft(
        self,
        held: GenerationPointer,
        copy: LocalCopy,
        files: Sequence["IndexFile"],
        checkpoint: "IndexCheckpoint",
        at: Item,
    ) -> GenerationPointer:
        """Store the files and the progress of a rebuild, so that another builder can resume it. Raises LeaseLost."""
        generation, _ = self._saved(held, copy, files)
        held = self.store_draft(held, generation, at, checkpoint)
        copy.is_of(generation)
        return held

    def copy_newest(self, copy: LocalCopy) -> GenerationPointer:
        """Copy the published generation, unless `copy` already contains it. Returns the pointer.

        Empties `copy` if this release cannot read the published generation, or if there is none. Raises DamagedFile.
        Raises ObjectMissing if a generation was deleted during each attempt to copy it.
        """
        for attempt in range(MAX_COPIES):
            pointer = self.pointer()
            try:
                self.copy_of(pointer.readable, copy)
            except ObjectMissing:
                if attempt == MAX_COPIES - 1:
                    raise
            else:
                break
        return pointer

    def copy_of(self, generation: str | None, copy: LocalCopy) -> None:
        """Copy a generation, unless `copy` already contains it. If `generation` is `None`, empties `copy`.

        Downloads only missing or damaged files. Raises DamagedFile, and ObjectMissing if the generation was deleted.
        """
        if generation is None:
            copy.keep(())
            return
        if copy.generation == generation:
            return

        def copy_file(file: StoredFile) -> None:
            target = copy.folder / file.name
            self._objects.copy_to(object_uri(self._bucket, file.key), target)
            if not _is(target, file):
                raise DamagedFile(f"{file.key} differs from the manifest of the generation {generation}.")

        map_threads(copy_file, copy.keep(self._manifest(generation)), CONCURRENCY)
        copy.is_of(generation)

    def tidy(self, held: GenerationPointer) -> tuple[GenerationPointer, int]:
        """Delete unreferenced objects of the index. Does nothing if the last deletion was less than KEPT_SECONDS ago.

        Returns the pointer and the number of deleted objects.

        Retains the published generation, the previous generation, an unfinished rebuild, and all objects younger than
        KEPT_SECONDS. Raises LeaseLost. Raises ObjectMissing or DamagedFile if the referenced objects cannot be
        determined, and then deletes nothing.
        """
        tidied = self.begin_tidy(held)
        if tidied is None:
            return held, 0
        used = [held.generation, held.draft.generation if held.draft else None]
        named = {key for generation in used if generation for key in self._keys(generation)}
        if held.previous:
            with suppress(ObjectMissing, DamagedFile):  # then no reader can copy the generation either
                named.update(self._keys(held.previous))

        def is_over(found: ListedObject) -> bool:
            return found.key not in named and found.changed.timestamp() < tidied.tidied_at - KEPT_SECONDS

        over = [found.key for found in self._objects.list_objects(self._bucket, FOLDER) if is_over(found)]
        self._objects.delete(self._bucket, over)
        return tidied, len(over)

    def _saved(
        self, held: GenerationPointer, copy: LocalCopy, files: Sequence["IndexFile"]
    ) -> tuple[str, list[StoredFile]]:
        """Upload the new files of a copy, and a manifest. Returns the new generation's name and its files."""
        published: dict[str, StoredFile] = {}
        if copy.generation in (held.generation, held.draft.generation if held.draft else None) and copy.generation:
            published = {file.name: file for file in self._manifest(copy.generation)}
        generation = next_generation(held)

        def upload(file: "IndexFile") -> StoredFile:
            before = published.get(file.name)
            if file.is_immutable and before and before.size == file.size:
                return before
            path, key = copy.folder / file.name, f"{FOLDER}{generation}/{file.name}"
            stored = StoredFile(file.name, key, path.stat().st_size, _sha256(path))
            self._objects.put_file(self._bucket, key, path, "application/octet-stream")
            return stored

        stored = map_threads(upload, files, CONCURRENCY)
        manifest = {"generation": generation, "files": [file._asdict() for file in stored]}
        self._objects.put(self._bucket, _manifest_key(generation), json.dumps(manifest).encode(), "application/json")
        return generation, stored

    def _manifest(self, generation: str) -> list[StoredFile]:
        """Return the files of a generation, as its manifest lists them. Raises ObjectMissing and DamagedFile."""
        key = _manifest_key(generation)
        data = self._objects.read(object_uri(self._bucket, key), 0, _LARGEST_MANIFEST)
        try:
            files = json.loads(data)["files"]
            return [StoredFile(file["name"], file["key"], int(file["size"]), file["sha256"]) for file in files]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{key} is not a valid manifest.") from error

    def _keys(self, generation: str) -> list[str]:
        return [_manifest_key(generation), *(file.key for file in self._manifest(generation))]


class EmbeddedStore:
    """Store of embedded indexes, for the builder. The builder changes a local copy of a generation, and uploads the
    copy to the bucket as a new generation."""

    follows = False
    slice_size = 100
    _engine: "TantivyEngine"

    def __init__(self, generations: Generations, copy: LocalCopy) -> None:
        self.pointers, self._copy = generations, copy

    def open(self, held: GenerationPointer, generation: str | None) -> "TantivyEngine":
        """Copy a generation, and open the copy. `None` opens an empty index."""
        from shared.search.tantivy_engine import TantivyEngine

        self.pointers.copy_of(generation, self._copy)
        self._engine = TantivyEngine(self._copy.folder)
        return self._engine

    def publish(self, held: GenerationPointer, checkpoint: "IndexCheckpoint") -> GenerationPointer:
        """Upload the open index as a new generation, and publish it."""
        return self.pointers.publish(held, self._copy, self._engine.files(), checkpoint, self._engine.size)

    def save_draft(self, held: GenerationPointer, checkpoint: "IndexCheckpoint", at: Item) -> GenerationPointer:
        """Upload the open, unfinished index, and store the progress of its rebuild."""
        return self.pointers.save_draft(held, self._copy, self._engine.files(), checkpoint, at)

    def tidy(self, held: GenerationPointer) -> tuple[GenerationPointer, int]:
        """Delete unreferenced objects of the index. Returns the pointer and the number of deleted objects."""
        return self.pointers.tidy(held)


def with_sample(sizes: Sequence[SizeSample], newest: SizeSample) -> tuple[SizeSample, ...]:
    """Return `sizes` with `newest` at the end, but only the last MAX_SIZES. If `newest` is less than a day later than
    the last of `sizes`, return `sizes` unchanged."""
    if sizes and newest.at - sizes[-1].at < DAY_SECONDS:
        return tuple(sizes)
    return (*sizes, newest)[-MAX_SIZES:]


def _places(item: Item) -> dict[str, LogCursor]:
    return {log: LogCursor(*cursor) for log, cursor in item.get("places", {}).items()}


def current_engine(table: Table) -> EngineName:
    """Return the engine of the unfinished rebuild. If there is none, return the engine of the published index, or
    `embedded` without an index.

    The rebuild has precedence, because after a switch to OpenSearch, the published index still has the old engine.
    """
    item = table.get(_KEY, consistent=True) or {}
    return "opensearch" if item.get("draft", item).get("engine") == "opensearch" else "embedded"


_LARGEST_MANIFEST = 4_000_000
"""Maximum size of a manifest in bytes, which suffices for about ten thousand files. An index has about a hundred."""


def _manifest_key(generation: str) -> str:
    return f"{FOLDER}{generation}/{_MANIFEST}"


def next_generation(held: GenerationPointer) -> str:
    """Return a new unique name of a generation, which sorts after the published generation and the draft."""
    names = (held.generation, held.draft.generation if held.draft else None)
    number = max((int(name.split("-")[-2]) for name in names if name), default=0)
    return f"{number + 1:08}-{os.urandom(4).hex()}"


def _is(path: Path, file: StoredFile) -> bool:
    return path.stat().st_size == file.size and _sha256(path) == file.sha256


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
