"""Job kinds, as a table with one row per kind. The function that consumes a kind's queue has a worker class for the kind.

Messages, quotas, roles, documents, alarms, the dashboard, the operation `whyNotReady` and the console's list of jobs are derived from
the rows. `python -m local.readme` updates the generated files.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from shared.video_fields import PROBED

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600

RENDITION = r"[A-Za-z0-9._-]{1,64}"
"""Regular expression of a rendition's name, such as `720p`."""

JOB_QUEUES: Mapping[str, int] = {"probe": 4, "thumbnails": 4, "transcode": 10}
"""Maximum number of concurrent jobs per owner, by job queue.

Except for `transcode`, each maximum is at most half of the queue's workers (infra/jobs_stack.py). Therefore the jobs of
one owner cannot occupy all workers. The number of workers of `transcode` is unknown, because transcoders are external.
"""


class JobKind(NamedTuple):
    """Declaration of a job kind. All times are in seconds."""

    name: str
    work: str
    """Subject of status sentences for the owner, such as `Probing` in "Probing failed". If the job creates a rendition,
    the rendition's name is appended."""
    queue: str
    """Name of the queue to which the job's messages are sent; a key of JOB_QUEUES."""
    lease: int
    """Seconds until a worker's lease of the job expires: slightly more than the time-out of the worker's function. The
    sweeper requeues a job with an expired lease."""
    needed: bool
    """Whether the video becomes ready only after this job is done."""
    after_probe: bool = True
    """Whether the job is created only after `probe` has succeeded."""
    needs: str | None = None
    """Name of the content that the source file must have for this job, such as `subtitles`. `None` if the job needs
    none."""
    per_rendition: bool = False
    """Whether a video has one job of this kind per rendition, such as `transcode.720p`."""
    parameters: Mapping[str, str] = MappingProxyType({})
    """Inputs that the job takes from the video, in addition to the source file. Maps the input's name to the name of
    the video's attribute."""
    writes: tuple[str, ...] = ()
    """Names of the video's attributes that the job's result sets. Attributes that every write sets are omitted."""
    stores: tuple[str, ...] = ()
    """Folders of the media bucket to which the job writes. Each has one subfolder per video."""
    extra_entities: tuple[str, ...] = ()
    """Names of other entities that the worker writes in the transaction that completes the job. The names are keys of
    EXTRA_ENTITIES in infra/attributes.py."""
    patience: int = 15 * MINUTE
    """Seconds that a queued job waits for a worker before the sweeper sends the job's message again. The time doubles
    with each send."""
    longest_wait: int = DAY
    """Maximum seconds that a queued job waits for a worker. After this time, the sweeper fails the job."""


_ROWS = (
    JobKind(
        "probe",
        "Probing",
        "probe",
        lease=3 * MINUTE,
        needed=True,
        after_probe=False,
        writes=(*PROBED, "origins", "source", "status", "failure"),
    ),
    JobKind(
        "poster",
        "Creating the poster",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        parameters={"time": "posterTime"},
        writes=("pictures",),
        stores=("thumbnails",),
    ),
    JobKind(
        "storyboard",
        "Creating the storyboard",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        writes=("pictures",),
        stores=("thumbnails",),
    ),
    JobKind(
        "captions",
        "Extracting the subtitles",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        needs="subtitles",
        stores=("captions",),
        extra_entities=("captions",),
    ),
    # Transcoders are external. Jobs may wait long in their queue, but a transcoder sends heartbeats while it works.
    JobKind(
        "transcode",
        "Creating the rendition",
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
"""Names of all folders of the media bucket in which each video has a subfolder."""

KIND_PATTERN = "|".join(
    rf"{re.escape(row.name)}\.{RENDITION}" if row.per_rendition else re.escape(row.name) for row in _ROWS
)
"""Regular expression of a job's kind, such as `transcode.720p`, without `^` and `$`."""

_NAMES = [f"`{row.name}.` and the name of a rendition" if row.per_rendition else f"`{row.name}`" for row in _ROWS]
KINDS_IN_WORDS = f"{', '.join(_NAMES[:-1])}, or {_NAMES[-1]}"


def base_of(kind: str) -> str:
    """Return a job's kind without the name of the rendition, such as `transcode` for `transcode.720p`."""
    return kind.partition(".")[0]


def kind_of(kind: str) -> JobKind:
    """Return the row of KINDS for the kind of a job, such as `probe` or `transcode.720p`.

    Raises KeyError if the kind is unknown, for example because a newer release created the job.
    """
    return KINDS[base_of(kind)]


def rendition_kind(name: str) -> str:
    """Return the kind of the job that creates a rendition, such as `transcode.720p` for the rendition `720p`."""
    return f"transcode.{name}"
