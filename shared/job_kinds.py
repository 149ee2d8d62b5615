"""Job kinds: one row for each kind, and one worker class in the function that reads the row's queue.

Messages, quotas, roles, documents, alarms, the dashboard, why-not-ready and the console's labels are derived from the rows.
`python -m local.readme` writes the generated files.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from shared.video_fields import PROBED

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600

RENDITION = r"[A-Za-z0-9._-]{1,64}"
"""Pattern of a rendition's name, such as `720p`."""

JOB_QUEUES: Mapping[str, int] = {"probe": 4, "thumbnails": 4, "transcode": 10}
"""Concurrency quota per owner, by job queue.

A quota is at most half of the workers (infra/jobs_stack.py), so that one owner's jobs cannot occupy all of them. Transcoders are
external, so the number of workers of `transcode` is unknown.
"""


class JobKind(NamedTuple):
    """Declaration of a job kind. All times are in seconds."""

    name: str
    work: str
    """Subject of sentences to the owner. The name of the rendition is appended, if there is one."""
    label: str
    """Label in the console. The name of the rendition is appended, if there is one."""
    queue: str
    """Queue of its messages, a key of JOB_QUEUES."""
    lease: int
    """Lease duration: the job is requeued after a worker has been silent this long. Slightly longer than the function's timeout."""
    needed: bool
    """Whether the video becomes ready only after this job is done."""
    after_probe: bool = True
    """Whether the job is created only after `probe` has succeeded."""
    needs: str | None = None
    """Fact about the source file that the job requires, such as `subtitles`; `None` if it requires none."""
    per_rendition: bool = False
    """Whether there is one job for each rendition, with a kind such as `transcode.720p`."""
    parameters: Mapping[str, str] = MappingProxyType({})
    """Inputs other than the source file: names in the job's input, and the optional attributes of the video they are read from."""
    writes: tuple[str, ...] = ()
    """Attributes of the video that its result sets, in addition to the attributes that every write of a video sets."""
    stores: tuple[str, ...] = ()
    """Folders of the media bucket it writes to, each with one subfolder per video."""
    extra_entities: tuple[str, ...] = ()
    """Entities that it writes in the transaction that completes the job: names in infra/attributes.py."""
    patience: int = 15 * MINUTE
    """Wait for a worker before the message of a queued job is sent again; doubles with each send."""
    longest_wait: int = DAY
    """Maximum total wait for a worker; then the job fails."""


_ROWS = (
    JobKind(
        "probe",
        "Looking at the film",
        "Probe",
        "probe",
        lease=3 * MINUTE,
        needed=True,
        after_probe=False,
        writes=(*PROBED, "origins", "source", "status", "failure"),
    ),
    JobKind(
        "poster",
        "Making the poster",
        "Poster",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        parameters={"time": "posterTime"},
        writes=("pictures",),
        stores=("thumbnails",),
    ),
    JobKind(
        "storyboard",
        "Making the storyboard",
        "Storyboard",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        writes=("pictures",),
        stores=("thumbnails",),
    ),
    JobKind(
        "captions",
        "Taking out the subtitles",
        "Captions",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        needs="subtitles",
        stores=("captions",),
        extra_entities=("captions",),
    ),
    # An external transcoder: its queue may be long, but it sends heartbeats while it works.
    JobKind(
        "transcode",
        "Making the rendition",
        "Rendition",
        "transcode",
        lease=15 * MINUTE,
        needed=True,
        per_rendition=True,
        writes=("source", "status"),
        stores=("renditions",),
        patience=6 * HOUR,
        longest_wait=3 * DAY,
    ),
)
KINDS = {row.name: row for row in _ROWS}
MEDIA_FOLDERS = tuple(dict.fromkeys(folder for row in _ROWS for folder in row.stores))
"""Folders of the media bucket that contain one subfolder per video."""

KIND_PATTERN = "|".join(
    rf"{re.escape(row.name)}\.{RENDITION}" if row.per_rendition else re.escape(row.name) for row in _ROWS
)
"""Pattern of a job's kind, unanchored."""

_NAMES = [f"`{row.name}.` and the name of a rendition" if row.per_rendition else f"`{row.name}`" for row in _ROWS]
KINDS_IN_WORDS = f"{', '.join(_NAMES[:-1])}, or {_NAMES[-1]}"


def base_of(kind: str) -> str:
    """Return a job's kind without the name of its rendition: `transcode` for `transcode.720p`."""
    return kind.partition(".")[0]


def kind_of(kind: str) -> JobKind:
    """Return the row of a job's kind, such as `probe` or `transcode.720p`.

    Raises KeyError for an unknown kind, which a later release may have written.
    """
    return KINDS[base_of(kind)]


def rendition_kind(name: str) -> str:
    """Return the kind of the job that creates this rendition."""
    return f"transcode.{name}"
