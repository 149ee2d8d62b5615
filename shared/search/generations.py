"""Generations of the index: files that never change, a manifest for each generation, and one item that says which one holds.

A builder puts its new files below a folder of their own, `index/<generation>/`, then the manifest, and then writes the item: that
one conditional write is what publishes. A builder that is cut off anywhere before leaves files that nothing names, and nobody
sees them. Most files of a generation are those of the one before: its manifest names them where they are.

One builder works at a time. It has a lease, which a heartbeat renews, and each write of the item has the condition that the lease is
still its own. So one that was away for too long cannot publish over what another one has published since.

A rebuild is saved now and then as a draft: a generation that only who goes on with the rebuild reads.
"""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.leases import Lease, LeaseLost, fence, is_free, write_held
from shared.aws.s3 import Listed, ObjectGone, Objects, object_uri
from shared.core.attributes import Item
from shared.feed.log import Place
from shared.schema import INDEX
from shared.search.document import FORM
from shared.threads import map_threads

if TYPE_CHECKING:
    from shared.search.engine import File, Mark

FOLDER = "index/"
"""Where all of it is in the bucket."""
HEARTBEAT_SECONDS = 10
"""Seconds between two renewals of the lease by a builder that works."""
LEASE_SECONDS = 4 * HEARTBEAT_SECONDS
"""Seconds until the lease of a builder that has died expires. Its next scheduled run is at most a minute later."""
KEPT_SECONDS = 3600
"""How long after it was written an object stays that no generation names: somebody may be about to name it, or to read it."""
SIDE_BY_SIDE = 8
"""Objects that are read or written at a time."""
MAX_COPIES = 3
"""Maximum attempts of one copy, including the first: the generation may be removed while it is read."""
_OWN = "video-index-"
_MANIFEST = "manifest.json"
_KEY = INDEX.key()
NO_LEASE = Lease("", 0)
"""The lease of a pointer that no builder has leased."""


class DamagedFile(Exception):
    """A file is not what the manifest says of it, or the manifest cannot be read."""


class Kept(NamedTuple):
    """A file of a generation, and where it is."""

    name: str
    key: str
    size: int
    """Bytes."""
    sha256: str


class Draft(NamedTuple):
    """A rebuild that has not ended."""

    generation: str
    at: Item
    """How far it has come; shared/search/building.py says what is in it."""


@dataclass(frozen=True)
class Pointer:
    """What the item says."""

    generation: str | None = None
    """None: nothing was published yet."""
    form: int | None = None
    """Of the generation."""
    previous: str | None = None
    """What held before; its files stay for those who read them at this moment."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Up to where the generation has followed the logs."""
    as_of: int = 0
    """Milliseconds since 1970: when it had followed everything up to then."""
    films: int = 0
    bytes: int = 0
    published_at: int = 0
    """Epoch seconds."""
    draft: Draft | None = None
    """None also for one of another form, with which nobody can go on."""
    tidied_at: int = 0
    """Epoch seconds."""
    lease: Lease = NO_LEASE

    @classmethod
    def of(cls, item: Item | None) -> "Pointer":
        """What an item says; without one nothing holds."""
        if item is None:
            return cls()
        draft = item.get("draft")
        if draft and draft.get("form") != FORM:
            draft = None
        return cls(
            generation=item.get("generation"),
            form=item.get("form"),
            previous=item.get("previous"),
            places={log: Place(*place) for log, place in item.get("places", {}).items()},
            as_of=item.get("asOf", 0),
            films=item.get("films", 0),
            bytes=item.get("bytes", 0),
            published_at=item.get("publishedAt", 0),
            draft=Draft(draft["generation"], draft["at"]) if draft else None,
            tidied_at=item.get("tidiedAt", 0),
            lease=Lease.of(item) or NO_LEASE,
        )

    @property
    def readable(self) -> str | None:
        """The generation that holds, if its form is that of this release; None: there is none for this release."""
        return self.generation if self.form == FORM else None


class Copy:
    """A generation on this machine, which whoever has it may take further.

    The folder says which generation it came from only while all of that is there: a copy that was cut off is made anew.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "engine"
        """Where the engine works."""
        self._origin = folder / "generation"

    @property
    def generation(self) -> str | None:
        """The generation that it came from, or was published as last; None: it came from none, or is not whole."""
        with suppress(FileNotFoundError):
            return self._origin.read_text(encoding="utf-8")
        return None

    def keep(self, files: Iterable[Kept]) -> list[Kept]:
        """Remove everything but these files, and those that are not as they are said to be; returns the ones that are missing.

        No engine may have the folder.
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
        """Say what it is a copy of; None: its files are to be looked at before it is used again."""
        if generation is None:
            self._origin.unlink(missing_ok=True)
            return
        unfinished = self._origin.with_suffix(".part")
        unfinished.write_text(generation, encoding="utf-8")
        os.replace(unfinished, self._origin)


def own_folder() -> Path:
    """A folder of this process alone, in the machine's folder for what passes, and empty.

    Those of processes that are gone are removed: Lambda keeps them when it starts a function anew in the same place, and on a
    laptop all functions share one machine.
    """
    there = Path(gettempdir())
    for other in there.glob(f"{_OWN}*"):
        pid = other.name.removeprefix(_OWN)
        if pid.isdigit() and (int(pid) == os.getpid() or not _runs(int(pid))):
            shutil.rmtree(other, ignore_errors=True)
    own = there / f"{_OWN}{os.getpid()}"
    own.mkdir(mode=0o700)
    return own


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


class Heartbeat:
    """Calls `beat` every `seconds` from its own thread until the block ends, also during long calls such as merges and uploads.

    with Heartbeat(renew_lease):
        engine.commit(mark)
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


class Generations:
    """The item in the table, and the objects in a bucket. Methods raise Unavailable when one of them is busy."""

    def __init__(self, table: Table, objects: Objects, bucket: str, clock: Callable[[], float] = time.time) -> None:
        self._table, self._objects, self._bucket, self._clock = table, objects, bucket, clock

    def pointer(self) -> Pointer:
        """What holds at this moment."""
        return Pointer.of(self._table.get(_KEY, consistent=True))

    def lease(self) -> Pointer | None:
        """Take the lease; returns what holds then, with the lease in it. None: another builder has it."""
        now = int(self._clock())
        mine = Lease.new(now + LEASE_SECONDS)
        with suppress(LeaseLost):
            self._write(mine, change_between({}, mine.attributes), condition=is_free(now, 2 * LEASE_SECONDS))
            pointer = self.pointer()
            return pointer if pointer.lease == mine else None
        return None

    def renew(self, held: Pointer) -> Pointer:
        """Keep the lease for LEASE_SECONDS from now; raises LeaseLost."""
        until = int(self._clock()) + LEASE_SECONDS
        self._write(held.lease, Expression.of("SET #leaseUntil = :until", until=until))
        return replace(held, lease=held.lease._replace(until=until))

    def release(self, held: Pointer) -> None:
        """Let the next builder begin at once."""
        with suppress(LeaseLost):
            self._write(held.lease, Expression.of("REMOVE #lease, #leaseUntil"))

    def publish(self, held: Pointer, copy: Copy, files: Sequence["File"], mark: "Mark", films: int) -> Pointer:
        """Let what a copy consists of hold from now on, and end a draft; raises LeaseLost, and then nothing has changed."""
        generation, kept = self._saved(held, copy, files)
        new = replace(
            held,
            generation=generation,
            form=FORM,
            previous=held.generation,
            places=mark.places,
            as_of=mark.as_of,
            films=films,
            bytes=sum(file.size for file in kept),
            published_at=int(self._clock()),
            draft=None,
        )
        said: Item = {
            "generation": generation,
            "form": FORM,
            "places": {log: list(place) for log, place in new.places.items()},
            "asOf": new.as_of,
            "films": new.films,
            "bytes": new.bytes,
            "publishedAt": new.published_at,
            **({"previous": held.generation} if held.generation else {}),
        }
        sets = ", ".join(f"#{name} = :{name}" for name in said)
        self._write(held.lease, Expression.of(f"SET {sets} REMOVE #draft", **said))
        copy.is_of(generation)
        return new

    def save_draft(self, held: Pointer, copy: Copy, files: Sequence["File"], at: Item) -> Pointer:
        """Keep what a rebuild has made, and how far it has come; raises LeaseLost."""
        generation, _ = self._saved(held, copy, files)
        draft = Draft(generation, at)
        self._write(
            held.lease, Expression.of("SET #draft = :draft", draft={"generation": generation, "form": FORM, "at": at})
        )
        copy.is_of(generation)
        return replace(held, draft=draft)

    def drop_draft(self, held: Pointer) -> Pointer:
        """Forget a rebuild that cannot go on; raises LeaseLost."""
        self._write(held.lease, Expression.of("REMOVE #draft"))
        return replace(held, draft=None)

    def copy_newest(self, copy: Copy) -> Pointer:
        """Make a copy of the generation that holds, unless it is one; returns what holds. It becomes empty without one of this form.

        Raises ObjectGone when generations are removed faster than they are copied, and DamagedFile.
        """
        for turn in range(MAX_COPIES):
            pointer = self.pointer()
            try:
                self.copy_of(pointer.readable, copy)
            except ObjectGone:
                if turn == MAX_COPIES - 1:
                    raise
            else:
                break
        return pointer

    def copy_of(self, generation: str | None, copy: Copy) -> None:
        """Make a copy of a generation, unless it is one; None: an empty one. Files that are there already are not read again.

        Raises ObjectGone when it was removed, and DamagedFile.
        """
        if generation is None:
            copy.keep(())
            return
        if copy.generation == generation:
            return

        def bring(file: Kept) -> None:
            there = copy.folder / file.name
            self._objects.copy_to(object_uri(self._bucket, file.key), there)
            if not _is(there, file):
                raise DamagedFile(f"{file.key} is not the file that the generation {generation} was made of.")

        map_threads(bring, copy.keep(self._manifest(generation)), SIDE_BY_SIDE)
        copy.is_of(generation)

    def tidy(self, held: Pointer) -> tuple[Pointer, int]:
        """Remove the objects that no generation needs any more, if that was not done for a while; returns how many.

        What holds, what held before, and a draft stay, and everything that was written within KEPT_SECONDS. Who copies what is
        even older begins anew. Raises LeaseLost, and ObjectGone or DamagedFile when it cannot be known what has to stay: then
        everything does.
        """
        now = int(self._clock())
        if now - held.tidied_at < KEPT_SECONDS:
            return held, 0
        # First, and with the lease: nobody else publishes what would be removed here.
        self._write(held.lease, Expression.of("SET #tidiedAt = :now", now=now))
        used = [held.generation, held.draft.generation if held.draft else None]
        named = {key for generation in used if generation for key in self._keys(generation)}
        if held.previous:
            with suppress(ObjectGone, DamagedFile):  # nobody can read it any more
                named.update(self._keys(held.previous))

        def is_over(found: Listed) -> bool:
            return found.key not in named and found.changed.timestamp() < now - KEPT_SECONDS

        over = [found.key for found in self._objects.listed(self._bucket, FOLDER) if is_over(found)]
        self._objects.delete(self._bucket, over)
        return replace(held, tidied_at=now), len(over)

    def _saved(self, held: Pointer, copy: Copy, files: Sequence["File"]) -> tuple[str, list[Kept]]:
        """Put what is new of a copy, and its manifest, into a folder of its own; returns the generation's name, and its files."""
        there: dict[str, Kept] = {}
        if copy.generation in (held.generation, held.draft.generation if held.draft else None) and copy.generation:
            there = {file.name: file for file in self._manifest(copy.generation)}
        number = max(
            (_number(name) for name in (held.generation, held.draft and held.draft.generation) if name), default=0
        )
        generation = f"{number + 1:08}-{os.urandom(4).hex()}"

        def put(file: "File") -> Kept:
            before = there.get(file.name)
            if file.is_immutable and before and before.size == file.size:
                return before
            path, key = copy.folder / file.name, f"{FOLDER}{generation}/{file.name}"
            kept = Kept(file.name, key, path.stat().st_size, _sha256(path))
            self._objects.put_file(self._bucket, key, path, "application/octet-stream")
            return kept

        kept = map_threads(put, files, SIDE_BY_SIDE)
        manifest = {"generation": generation, "files": [file._asdict() for file in kept]}
        self._objects.put(self._bucket, _manifest_key(generation), json.dumps(manifest).encode(), "application/json")
        return generation, kept

    def _manifest(self, generation: str) -> list[Kept]:
        """The files of a generation; raises ObjectGone and DamagedFile."""
        key = _manifest_key(generation)
        data = self._objects.read(object_uri(self._bucket, key), 0, _LARGEST_MANIFEST)
        try:
            files = json.loads(data)["files"]
            return [Kept(file["name"], file["key"], int(file["size"]), file["sha256"]) for file in files]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{key} is not a manifest.") from error

    def _keys(self, generation: str) -> list[str]:
        return [_manifest_key(generation), *(file.key for file in self._manifest(generation))]

    def _write(self, lease: Lease, change: Expression, *, condition: Expression | None = None) -> None:
        """Change the item, if it has the lease, or to put that there on a condition; raises LeaseLost."""
        write = self._table.update(_KEY, change, condition=condition or fence(lease=lease.id))
        write_held(self._table, [write], lease.attributes)


_LARGEST_MANIFEST = 4_000_000
"""Bytes of a manifest: of some ten thousand files, where an index has some hundred."""


def _manifest_key(generation: str) -> str:
    return f"{FOLDER}{generation}/{_MANIFEST}"


def _number(generation: str) -> int:
    return int(generation.partition("-")[0])


def _is(path: Path, file: Kept) -> bool:
    return path.stat().st_size == file.size and _sha256(path) == file.sha256


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
