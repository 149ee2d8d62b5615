"""Content of a video in the search index, and the version of the index format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from shared.captions.cues import Cue, plain_text
from shared.core.attributes import Item, Value
from shared.core.periods import DAY_SECONDS
from shared.schema import TTL_ATTRIBUTE
from shared.video_fields import FACETS

if TYPE_CHECKING:
    from shared.entities import AnyVideo

FORM = 1
"""Version of the index format. Increment it when the fields, the tokenizer or the Tantivy version change.

The builder rebuilds an index that has another format version.
"""
LARGEST_CAPTIONS = 4_000_000
"""Maximum size of a video's indexed captions in bytes. It is enough for two stored caption files of maximum size, or
for about forty caption files of feature films."""
MAX_CUES = 40_000
"""Maximum number of cues per video that the index contains."""


class IndexLimits(NamedTuple):
    """Limits of the index in one deployment: its size, and the captions that it contains.

    >>> IndexLimits(caption_days=30).includes_captions(created_at=0, now=31 * 86_400)
    False
    """

    bytes: int = 0
    """Maximum size of the index in bytes, above which it does not fit on the functions' disks. 0 if it is unknown."""
    caption_days: int = 0
    """Number of days after a video's creation during which its captions are in the index. 0 sets no limit."""
    caption_cues: int = MAX_CUES
    """Maximum number of a video's cues in the index. Captions that would exceed it are omitted."""

    def includes_captions(self, created_at: int, now: float) -> bool:
        """Return whether the index contains the captions of a video created at `created_at`, in epoch seconds."""
        return self.caption_cues > 0 and not (self.caption_days and created_at < now - self.caption_days * DAY_SECONDS)


NO_LIMITS = IndexLimits()
"""Default limits: no maximum size, and the captions of all videos, up to MAX_CUES cues per video."""


@dataclass(frozen=True)
class VideoDocument:
    """Content of a video in the index: its texts, its filter values, and the attributes that determine who may see
    it."""

    video_id: str
    user_id: str
    title: str
    created_at: int
    """Time of creation, in epoch seconds."""
    visible: bool
    """Whether the video is public and ready. If so, all callers may see it from `publish_at` until `expires_at`."""
    names: Sequence[str] = ()
    """Titles of the video's releases, names of the people in its credits, and names of their characters."""
    tags: Sequence[str] = ()
    """Tags in their original spelling. Facets and filters use the case-folded form (shared/videos/tags.py)."""
    description: str = ""
    facets: Mapping[str, str | int] = field(default_factory=dict)
    """Value of the video for each facet, except the tags."""
    language: str | None = None
    publish_at: int | None = None
    """Time of publication, in epoch seconds; `None` if the video has none."""
    expires_at: int | None = None
    """Time of expiry, in epoch seconds; `None` if the video does not expire."""
    purge_at: int | None = None
    """Time, in epoch seconds, from which no caller may see the video; `None` if no deletion is scheduled. The video
    stays in the index until it is purged."""
    captions: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    """Cues by language, in playing order. A cue has its start in milliseconds, and its text without markup."""


def build_document(
    video: "AnyVideo | None", children: Iterable[Item], cues: Mapping[str, Sequence[Cue]]
) -> VideoDocument | None:
    """Return the content of a video for the index, or `None` if the video does not exist or is deleted.

    `children` are the video's releases and credits. `cues` contains the cues of its captions by language.
    """
    if video is None or video["status"] == "deleted":
        return None
    attributes: Mapping[str, Value] = video
    return VideoDocument(
        video_id=video["videoId"],
        user_id=video["userId"],
        title=video["title"],
        created_at=video["createdAt"],
        visible=video["status"] == "ready" and video["visibility"] == "public",
        names=_names(children, video["title"]),
        tags=tuple(sorted(video.get("tags", ()))),
        description=video.get("description", ""),
        facets={facet: attributes[name] for facet, name in FACETS.items() if name in video and name != "tags"},
        language=video.get("language"),
        publish_at=video.get("publishAt"),
        expires_at=video.get("expiresAt"),
        purge_at=video.get(TTL_ATTRIBUTE),
        captions={language: [(cue.start, plain_text(cue)) for cue in cues[language]] for language in sorted(cues)},
    )


def searchable_texts(captions: Iterable[Item], language: str | None, max_cues: int = MAX_CUES) -> list[Item]:
    """Return the caption items to index. `language` is the video's own language.

    Captions in this language are first, then captions in its variants, then captions in other languages, by language
    tag. Skips each item with which the result would exceed LARGEST_CAPTIONS bytes, MAX_CUES cues or `max_cues` cues.
    """
    own = (language or "").lower()

    def rank(item: Item) -> tuple[bool, bool, str]:
        spoken = item["language"].lower()
        return spoken != own, spoken.partition("-")[0] != own.partition("-")[0], spoken

    chosen, size, cues, most = [], 0, 0, min(MAX_CUES, max_cues)
    for item in sorted(captions, key=rank):
        if size + item["size"] <= LARGEST_CAPTIONS and cues + item["cues"] <= most:
            chosen.append(item)
            size, cues = size + item["size"], cues + item["cues"]
    return chosen


def _names(children: Iterable[Item], title: str) -> tuple[str, ...]:
    """Return the local titles of a video, and the names and characters in its credits, in the order of `children`.

    Omits duplicates and the video's title.
    """
    names: dict[str, None] = {}
    for item in children:
        for local in item.get("titles", ()):
            names[local["title"]] = None
        if "personId" in item:
            if "name" in item:
                names[item["name"]] = None
            for role in item["roles"]:
                names.update(dict.fromkeys(role.get("characters", ())))
    names.pop(title, None)
    return tuple(names)
