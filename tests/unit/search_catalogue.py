"""Videos of the conformance suite of the search engines, by a short key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from shared.core.caller import Caller
from shared.routes import ADMIN
from shared.search.document import VideoDocument

NOW = 1_700_000_000
ANONYMOUS = Caller("", frozenset())
ALICE, BOB = Caller("alice", frozenset()), Caller("bob", frozenset())
ROOT = Caller("root", frozenset({ADMIN}))
CUES = {"en": [(1000, "May the force"), (2500, "be with you.")], "de": [(1000, "Möge die Macht mit dir sein")]}


def video_id(number: int) -> str:
    """Return a UUID for a number. Ids of consecutive numbers are far apart."""
    return str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))


def make_document(number: int = 1, title: str = "Film", **others: Any) -> VideoDocument:
    """Return a document of alice's visible video."""
    document = VideoDocument(video_id(number), "alice", title, created_at=NOW - number, visible=True)
    return replace(document, **others)


def _said(text: str) -> Mapping[str, Any]:
    return {"captions": {"en": [(0, text)]}}


_VIDEOS: Mapping[str, Mapping[str, Any]] = {
    "tiger": {
        "title": "Crouching Tiger, Hidden Dragon",
        "names": ["臥虎藏龍", "Chow Yun-Fat", "Michelle Yeoh"],
        "tags": ["Wuxia"],
        "description": "Ein Mädchen stiehlt ein Schwert.",
        "captions": CUES,
    },
    # The same word in each field.
    "said": {"title": "A", **_said("a quasar")},
    "described": {"title": "B", "description": "One quasar"},
    "tagged": {"title": "C", "tags": ["Quasar"]},
    "named": {"title": "D", "names": ["Quasar"]},
    "titled": {"title": "Quasar"},
    # Exact words, prefixes and typos, and the length of titles.
    "heat": {"title": "Heat"},
    "heated": {"title": "Heated"},
    "heart": {"title": "Heart"},
    "red": {"title": "Red Heat"},
    "night": {"title": "The Big Heat of the Night"},
    # Words in order.
    "mixed": {"title": "E", "captions": {"en": [(0, "with you the force may be"), (1, "you be with the may")]}},
    "new1": {"title": "F", **_said("so new it was")},
    "new2": {"title": "G", **_said("so new it was")},
    "sosonew": {"title": "H", **_said("it was so, so new")},
    # Spellings.
    "spider": {"title": "The Spider-Man", "description": "From the U.S.A."},
    "hara": {"title": "O'Hara's Rock'n'Roll", "names": ["Don't Stop"]},
    "street": {"title": "Die Straße", "description": "Ärger am Smørrebrød, Łódź, Œuvre"},
    "creme": {"title": "Crème brûlée"},
    "terminator": {"title": "Terminator"},
    "termination": {"title": "Termination"},
    "space": {"title": "2001"},
    "contact": {"title": "2010"},
    "wide": {"title": "\uff21\uff22\uff23 Ⅳ ﬁn"},
    "jet": {"title": "Bat jet"},
    # Scripts.
    "tokyo": {"title": "東京物語"},
    "cat": {"title": "猫 第3話", "tags": ["コーヒー"]},
    "parasite": {"title": "기생충"},
    "train": {"title": "Ночной поезд", "description": "Ёлка"},
    "odyssey": {"title": "Ὀδυσσεύς"},
    "sholay": {"title": "शोले हिन्दी"},
    "shalom": {"title": "שָׁלוֹם"},
    "thai": {"title": "ฉลาดเกมส์โกง"},
    # Filters and facets.
    "harbour1": {
        "title": "Harbour one",
        "facets": {"category": "Drama", "year": 1995},
        "tags": ["Neo Noir", "USA"],
        "language": "en-NZ",
        "created_at": 100,
    },
    "harbour2": {
        "title": "Harbour two",
        "facets": {"category": "drama", "year": -5},
        "tags": ["neo", "usa"],
        "language": "en",
        "created_at": 200,
        "user_id": "bob",
    },
    "harbour3": {"title": "Harbour three", "facets": {"year": 1995}, "language": "eng", "created_at": 300},
    # Visibility.
    "lantern": {"title": "Lantern"},
    "private": {"title": "Lantern", "visible": False},
    "scheduled": {"title": "Lantern", "publish_at": NOW + 1},
    "published": {"title": "Lantern", "publish_at": NOW, "user_id": "bob"},
    "expired": {"title": "Lantern", "expires_at": NOW, "facets": {"category": "Secret"}},
    "expiring": {"title": "Lantern", "expires_at": NOW + 1, "user_id": "bob"},
    "purged": {"title": "Lantern", "purge_at": NOW},
    "purging": {"title": "Lantern", "purge_at": NOW + 1, "user_id": "bob"},
    # Similar videos.
    "alien": {"title": "Alien", "tags": ["Space", "Horror"], "description": "A crew finds a creature on a ship."},
    "aliens": {"title": "Aliens", "tags": ["Space", "Horror"], "description": "Marines find more of the creature."},
    "horizon": {"title": "Event Horizon", "tags": ["Space"], "description": "A ship comes back."},
    "secret": {"title": "Alien Secret", "tags": ["Space", "Horror"], "visible": False, "user_id": "bob"},
    "wordless": {"title": "♪"},
    **{
        f"common{number}": {"title": "Others", "tags": ["Crime"], "description": "A day of a life."}
        for number in range(22)
    },
}

CATALOGUE = {key: make_document(number, **fields) for number, (key, fields) in enumerate(_VIDEOS.items(), 1)}
"""Documents of the suite by key."""
KEYS = {document.video_id: key for key, document in CATALOGUE.items()}
"""Key of each document by its id."""
