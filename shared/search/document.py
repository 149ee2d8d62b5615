"""What the index keeps of a video."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.captions.cues import Cue, plain
from shared.core.attributes import Item
from shared.schema import TTL_ATTRIBUTE
from shared.video_fields import FACETS

FORM = 1
"""Of the index: to be raised with each change of its fields, of how texts become words, or of Tantivy. An index of another form is
neither opened nor copied, but built anew."""
LARGEST_CAPTIONS = 4_000_000
"""Bytes of a film's captions that are searched: two of the largest that there may be, or some forty of a feature film."""
MOST_CUES = 40_000
"""Cues of a film that are searched."""


@dataclass(frozen=True)
class Film:
    """A video as it is searched: its words, what it is filtered by, and what decides who may see it."""

    video_id: str
    user_id: str
    title: str
    created_at: int
    """Epoch seconds."""
    visible: bool
    """Whether it is public and ready: then everybody may see it between `publish_at` and `expires_at`."""
    names: Sequence[str] = ()
    """The titles of its releases, the people in its credits, and the characters that they play."""
    tags: Sequence[str] = ()
    """As they are spelled; facets and filters fold them (shared/videos/tags.py)."""
    description: str = ""
    facets: Mapping[str, str | int] = field(default_factory=dict)
    """Its value by facet; those of tags are made of `tags`."""
    language: str | None = None
    publish_at: int | None = None
    """Epoch seconds."""
    expires_at: int | None = None
    """Epoch seconds."""
    purge_at: int | None = None
    """Epoch seconds from which it only waits for its removal, and nobody sees it."""
    captions: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    """By language, in the order of the film: when a cue starts, in milliseconds, and what it says, without tags."""


def film_of(video: Item | None, children: Iterable[Item], cues: Mapping[str, Sequence[Cue]]) -> Film | None:
    """A video as the index has it; None for one that is gone or deleted, and is to be taken out of the index.

    `children` are items that lie beside it: releases and credits are used, all others left alone. `cues` are its captions
    by language.
    """
    if video is None or video["status"] == "deleted":
        return None
    return Film(
        video_id=video["videoId"],
        user_id=video["userId"],
        title=video["title"],
        created_at=video["createdAt"],
        visible=video["status"] == "ready" and video["visibility"] == "public",
        names=_names(children, video["title"]),
        tags=tuple(sorted(video.get("tags", ()))),
        description=video.get("description", ""),
        facets={facet: video[name] for facet, name in FACETS.items() if name in video and name != "tags"},
        language=video.get("language"),
        publish_at=video.get("publishAt"),
        expires_at=video.get("expiresAt"),
        purge_at=video.get(TTL_ATTRIBUTE),
        captions={language: [(cue.start, plain(cue)) for cue in cues[language]] for language in sorted(cues)},
    )


def searched(captions: Iterable[Item], language: str | None) -> list[Item]:
    """Which of a film's captions are searched, by their items: those in the film's own language first, then by alphabet.

    Those that would exceed LARGEST_CAPTIONS or MOST_CUES together with the ones before them are left out.
    """
    own = (language or "").lower()

    def rank(item: Item) -> tuple[bool, bool, str]:
        spoken = item["language"].lower()
        return spoken != own, spoken.partition("-")[0] != own.partition("-")[0], spoken

    chosen, size, cues = [], 0, 0
    for item in sorted(captions, key=rank):
        if size + item["size"] <= LARGEST_CAPTIONS and cues + item["cues"] <= MOST_CUES:
            chosen.append(item)
            size, cues = size + item["size"], cues + item["cues"]
    return chosen


def _names(children: Iterable[Item], title: str) -> tuple[str, ...]:
    """What else a video is found by, each once, in the order of the items."""
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
