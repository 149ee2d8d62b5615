"""The kinds of jobs: what is made of a film, by which queue's workers, and how long that may take.

A new kind is one row here, and its worker. Messages, routes, patterns, documents, alarms and the dashboard follow from
the table; docs/jobs.md shows it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MINUTE, HOUR, DAY = 60, 3600, 24 * 3600

RENDITION = r"[A-Za-z0-9._-]{1,64}"
"""The name of a rendition, such as `720p`."""


@dataclass(frozen=True)
class Kind:
    """What all jobs of a kind have in common; times in seconds."""

    name: str
    work: str
    """What the job is about, as a sentence to the owner begins; the name of a rendition follows."""
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
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the job's input has besides the film, and the attribute of the video that it comes from, if that has it."""
    patience: int = 15 * MINUTE
    """How long a queued job may wait for a worker before its message is sent once more; twice as long each time."""
    longest_wait: int = DAY
    """How long it may wait in all before it is given up."""


_ROWS = (
    Kind("probe", "Looking at the film", "probe", lease=3 * MINUTE, needed=True, after_probe=False),
    Kind(
        "poster",
        "Making the poster",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        parameters={"time": "posterTime"},
    ),
    Kind("storyboard", "Making the storyboard", "thumbnails", lease=6 * MINUTE, needed=False),
    Kind(
        "captions",
        "Taking out the subtitles",
        "thumbnails",
        lease=6 * MINUTE,
        needed=False,
        needs="subtitles",
    ),
    # An outside transcoder: it may have a long queue of its own, but reports while it works.
    Kind(
        "transcode",
        "Making the rendition",
        "transcode",
        lease=15 * MINUTE,
        needed=True,
        per_rendition=True,
        patience=6 * HOUR,
        longest_wait=3 * DAY,
    ),
)
KINDS = {row.name: row for row in _ROWS}
JOB_QUEUES = tuple(dict.fromkeys(row.queue for row in _ROWS))
"""The queues whose messages stand for jobs."""

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
