"""Every key that a request can create fits DynamoDB. The largest key of each entity and index is computed.

A partition key may have 2,048 bytes, and a sort key 1,024. In an index, the partition attributes together are limited
to 2,048 bytes, and the sort attributes to 1,024.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-partition-sort-keys
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from string import Formatter

import pytest
from pydantic import TypeAdapter, ValidationError

from shared import schema
from shared.core.fields import Category, Language, Name, UserId
from shared.core.folders import LONGEST_PATH
from shared.core.limits import LARGEST_BATCH, LONGEST_FOLDED_TAG
from shared.core.text import LARGEST_USER_ID, LONGEST_USER_ID, is_user_id
from shared.openapi.document import document
from shared.relations.ranks import LONGEST as LONGEST_RANK
from shared.routes import ROUTES
from shared.schema import Attribute, Entity, Index
from shared.video_fields import UNIQUE
from shared.videos.models import Tag
from shared.videos.orders import STORED_ORDERS, title_value, views_value
from shared.videos.tags import normalise_tag
from shared.web.requests import LONGEST_KEY

LARGEST_PARTITION_KEY, LARGEST_SORT_KEY = 2048, 1024
LARGEST_NUMBER = 21
"""Maximum size of a number attribute, in bytes."""
WIDE = "\N{CLAPPER BOARD}"
"""A character of four bytes. It is longer than an escaped character, which takes three."""

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
USER_IDS = [
    "#" * escaped + WIDE * min(LONGEST_USER_ID - escaped, (LARGEST_USER_ID - escaped) // 4)
    for escaped in range(LONGEST_USER_ID + 1)
]
"""Candidates for the largest user id: N escaped characters, then as many four-byte characters as fit."""
TAGS = ["#" * escaped + WIDE * (64 - escaped) for escaped in range(65)] + ["x" * LONGEST_FOLDED_TAG]
KINDS = ["storyboard", "transcode." + "x" * 64]
LANGUAGES = ["-".join(["abcdefgh"] * 3 + ["abcdefg"])]


def _largest_path_parameters() -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the largest value of each path parameter that is limited to a number of ASCII characters."""
    for path in document()["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                longest = re.search(r"{1,(\d+)}\$$", parameter.get("schema", {}).get("pattern", ""))
                if longest and parameter["in"] == "path":
                    yield parameter["name"], ["x" * int(longest[1])]


PARTS: dict[str, list[str]] = {
    **dict(_largest_path_parameters()),
    "videoId": [UUID],
    "playlistId": [UUID],
    "userId": USER_IDS,
    "subject": USER_IDS,
    "operation": [route.operation for route in ROUTES],
    # Batch operations append the operation's index to the key.
    "key": ["%" * LONGEST_KEY + f"#{LARGEST_BATCH - 1}"],
    "id": ["%" * LONGEST_KEY],
    "shard": [str(schema.MAX_VIEW_SHARDS - 1)],
    "lane": [str(schema.LANES - 1)],
    "hour": ["2026-01-31T23"],
    "day": ["2026-01-31"],
    "window": ["month"],
    "total": ["ratings"],
    "span": ["86400"],
    "start": ["9" * 10],
    "digest": ["f" * 16],
    "uploadId": ["0" * 28],
    "kind": KINDS,
    "region": ["XWW"],
    "language": LANGUAGES,
    "tag": TAGS,
    "date": ["2026-01-31"],
    "rank": ["z" * LONGEST_RANK],
    "at": ["9" * 13],
    "sequence": ["9" * 40],
    "position": ["9" * 12, schema.TAIL],
    "queue": ["thumbnails"],
    "queuedAt": ["9" * 12],
    "name": [f"{UUID}#{kind}" for kind in KINDS],
    "importId": [UUID],
    "revertId": ["%" * 128],
    "webhookId": [UUID],
    "turn": ["9" * 12],
    "field": [*UNIQUE],
    "value": ["#" * escaped + WIDE * (200 - escaped) for escaped in range(201)],
    "part": [f"PLAYLIST#{UUID}#{'9' * 13}#{'9' * 40}"],
    "category": ["#" * 100, WIDE * 100],
    # Together, both parts of a path have at most LONGEST_PATH characters.
    "parent": [WIDE * (LONGEST_PATH - 1)],
    "folderName": [WIDE],
    "order": [*STORED_ORDERS],
}
"""Candidates for the largest value of each part of a key, by name of the part."""

ATTRIBUTES: dict[str, list[str]] = {
    "userId": USER_IDS,
    "videoId": [UUID],
    "category": [WIDE * 100],
    "orderBy": [schema.BY_TITLE, *STORED_ORDERS],
    "orderValue": [title_value(WIDE * 200), views_value(10**12)],
}
"""Candidates for the largest value of each textual index attribute, except relation attributes."""

RELATIONS: dict[str, tuple[Iterable[str], Iterable[str]]] = {
    schema.FEED: ([], [UUID]),
    schema.SCHEDULED: ([], [UUID]),
    schema.TAGS: ([], TAGS),
    schema.USERS: ([], USER_IDS),
    schema.DUE: ([], [UUID]),
    "status_relation": (["processing"], [UUID]),
    "job_relation": (["running"], [f"{UUID}/{kind}" for kind in KINDS]),
    "person_relation": (PARTS["personId"], [UUID]),
    "region_relation": (PARTS["region"], [f"{UUID}#{language}" for language in LANGUAGES]),
    "tag_relation": (TAGS, [UUID]),
    "series_relation": (USER_IDS, [UUID]),
    "folders_relation": (USER_IDS, [f"{WIDE * LONGEST_PATH}//{'9' * 12}/{UUID}"]),
    "rated_relation": ([UUID], USER_IDS),
    "playlists_relation": (USER_IDS, [UUID]),
    "in_playlist_relation": ([UUID], [UUID]),
    "counted_relation": (USER_IDS, [UUID]),
    "follower_relation": (USER_IDS, [UUID]),
    "viewed_relation": ([*PARTS["hour"], *PARTS["day"]], [UUID]),
}
"""Largest values of the variable part of `rel`, and of `relId`, by relation of RelationIndex."""


def _bytes(text: str) -> int:
    return len(text.encode())


def _largest_key(entity: Entity) -> dict[str, str]:
    """Return the largest key of an entity. Raises KeyError for a part that PARTS does not contain."""
    names = {name for template in (entity.pk, entity.sk) for _, name, _, _ in Formatter().parse(template) if name}

    def escaped(text: str) -> int:
        return _bytes(Entity("", "{part}", "").key(part=text)["pk"])

    return entity.key(**{name: max(PARTS[name], key=escaped) for name in names})


def _relation(name: str, part: str) -> str:
    return schema.series_relation(UUID, part) if name == "series_relation" else str(getattr(schema, name)(part))


def _largest(index: Index, attribute: Attribute) -> int:
    """Return the maximum size of an index attribute in bytes."""
    if attribute.type == "N":
        return LARGEST_NUMBER
    if index != schema.RELATION_INDEX:
        return max(map(_bytes, ATTRIBUTES[attribute.name]))
    names = {
        "rel": [_relation(name, part) for name, (parts, _) in RELATIONS.items() for part in parts],
        "relId": [entry for _, entries in RELATIONS.values() for entry in entries],
    }
    return max(map(_bytes, names[attribute.name]))


@pytest.mark.parametrize("entity", [*schema.ENTITIES, *schema.AUDIT_ENTITIES], ids=lambda entity: entity.name)
def test_largest_key_of_an_entity_fits(entity: Entity) -> None:
    key = _largest_key(entity)
    assert _bytes(key[schema.PARTITION_KEY]) <= LARGEST_PARTITION_KEY
    assert _bytes(key[schema.SORT_KEY]) <= LARGEST_SORT_KEY


@pytest.mark.parametrize("index", schema.INDEXES, ids=lambda index: index.name)
def test_largest_key_of_an_index_fits(index: Index) -> None:
    assert sum(_largest(index, attribute) for attribute in index.partition) <= LARGEST_PARTITION_KEY
    assert sum(_largest(index, attribute) for attribute in index.sort) <= LARGEST_SORT_KEY


def test_every_relation_is_checked() -> None:
    functions = {name for name, _ in inspect.getmembers(schema, inspect.isfunction) if name.endswith("_relation")}
    constants = {schema.FEED, schema.SCHEDULED, schema.TAGS, schema.USERS, schema.DUE}
    assert functions | constants == RELATIONS.keys()


def test_limit_of_user_ids_is_as_large_as_the_index_key_allows() -> None:
    """Test that the limit is not lower than necessary. A lower limit would refuse tokens without need."""
    room = LARGEST_SORT_KEY - sum(LARGEST_NUMBER for attribute in schema.RELATION_INDEX.sort if attribute.type == "N")
    assert room // 100 * 100 == LARGEST_USER_ID


class TestLimitsOfKeyParts:
    @pytest.mark.parametrize("user_id", [USER_IDS[0], USER_IDS[7], USER_IDS[-1]], ids=lambda text: text[-1])
    def test_largest_user_id_is_the_longest_valid_one(self, user_id: str) -> None:
        assert is_user_id(user_id)
        assert not is_user_id(user_id + WIDE)

    @pytest.mark.parametrize(
        "text", ["a", "", " ", "a\n", "\u2028", "x" * 256, WIDE * 250, WIDE * 251, "\ud800", "a/#?"]
    )
    def test_body_accepts_exactly_the_user_ids_that_a_token_may_have(self, text: str) -> None:
        try:
            accepted = TypeAdapter(UserId).validate_python(text)
        except (ValidationError, UnicodeEncodeError):
            accepted = None
        assert (accepted == text) == is_user_id(text)

    @pytest.mark.parametrize(
        ("type_", "name"), [(Tag, "tag"), (Language, "language"), (Name, "personId"), (Category, "category")]
    )
    def test_largest_value_of_each_other_part_is_valid(self, type_: type[str], name: str) -> None:
        for text in PARTS.get(name) or ATTRIBUTES[name]:
            if _bytes(text) == LONGEST_FOLDED_TAG:
                continue  # the value is the case-folded form of a shorter tag
            assert TypeAdapter(type_).validate_python(text) == text

    @pytest.mark.slow
    def test_no_character_is_normalised_to_several_escaped_characters(self) -> None:
        escaped = [normalise_tag(chr(point)) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
        assert max(len(re.findall("[#%]", text)) for text in escaped) == 1
