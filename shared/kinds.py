"""Job kinds: one row each, and a worker class of the same kind in the function that reads the row's queue.

Messages, quotas, roles, documents, alarms, the dashboard, why-not-ready and the console's labels follow from the rows.
`python -m local.readme` writes the generated files.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from shared.video_fields import PROBED

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600

RENDITION = r"[A-Za-z0-9._-]{1,64}"
"""The name of a rendition, such as `720p`."""

JOB_QUEUES: Mapping[str, int] = {"probe": 4, "thumbnails": 4, "transcode": 10}
"""The queues whose messages stand for jobs, and the concurrency quota of each owner there.

The quota is at most half of the workers (infra/jobs_stack.py), so that the films of one owner, however many and however slow, leave
workers to other owners. The number of transcoders is not known here.
"""


class Kind(NamedTuple):
    """Declaration of a job kind; times in seconds."""

    name: str
    work: str
    """Subject of sentences to the owner; the name of a rendition follows."""
    label: str
    """Name of the job in the console; the name of a rendition follows."""
    queue: str
    """The queue that its messages go to."""
    lease: int
    """How long a worker may be silent before its job is given to another: a little more than its function may run."""
    needed: bool
    """Whether the video cannot become ready without it."""
    after_probe: bool = True
    """Whether it is wanted only once `probe` has found out what the film is."""
    needs: str | None = None
    """The fact about the film without which it is not wanted."""
    per_rendition: bool = False
    """Whether there is one job for each rendition; its kind is then such as `transcode.720p`."""
    parameters: Mapping[str, str] = MappingProxyType({})
    """What the job's input has besides the film, and the attribute of the video that it comes from, if that has it."""
    writes: tuple[str, ...] = ()
    """Attributes of the video that its result changes, besides those that every change of a video writes."""
    stores: tuple[str, ...] = ()
    """Folders of the media bucket that it writes objects to, below the video's id."""
    beside: tuple[str, ...] = ()
    """Entities that it writes beside the video, in one transaction with its end: names in infra/attributes.py."""
    patience: int = 15 * MINUTE
    """How long a queued job may wait for a worker before its message is sent once more; twice as long each time."""
    longest_wait: int = DAY
    """How long it may wait in all before it is given up."""


_ROWS = (
    Kind(
        "probe",
        "Looking at the film",
        "Looking at the film",
        "probe",
        lease=3 * MINUTE,
        needed=True,
        after_probe=False,
        writes=(*PROBED, "origins", "source", "status", "failure"),
    ),
    Kind(
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
    Kind(
        "storyboard",
        "Making the storyboard",
        "Storyboard",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        writes=("pictures",),
        stores=("thumbnails",),
    ),
    Kind(
        "captions",
        "Taking out the subtitles",
        "Subtitles",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        needs="subtitles",
        stores=("captions",),
        beside=("captions",),
    ),
    # An outside transcoder: it may have a long queue of its own, but reports while it works.
    Kind(
        "transcode",
        "Making the rendition",
        "Version in",
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
"""Folders of the media bucket that have a folder for each video."""

KIND_PATTERN = "|".join(
    rf"{re.escape(row.name)}\.{RENDITION}" if row.per_rendition else re.escape(row.name) for row in _ROWS
)
"""What the kind of a job may be."""

_NAMES = [f"`{row.name}.` and the name of a rendition" if row.per_rendition else f"`{row.name}`" for row in _ROWS]
KINDS_IN_WORDS = f"{', '.join(_NAMES[:-1])}, or {_NAMES[-1]}"


def base_of(kind: str) -> str:
    """The kind of a job without the name of its rendition: `transcode` of `transcode.720p`."""
    return kind.partition(".")[0]


def kind_of(kind: str) -> Kind:
    """The row of a job's kind, such as `probe` or `transcode.720p`; raises KeyError for one of a later release."""
    return KINDS[base_of(kind)]


def rendition_kind(name: str) -> str:
    """The job that makes one rendition."""
    return f"transcode.{name}"
