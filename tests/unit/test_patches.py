"""A patch can do what a new video or playlist can: every field, with the same limits and the same consequences."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from local.testbed.harness import NOW, Api
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.relations.models import NewPlaylist, PlaylistPatch
from shared.schema import PARTITION_KEY, PLAYLIST, SORT_KEY, VIDEO, Entity, shard_of
from shared.video_fields import UNIQUE
from shared.videos.models import NewVideo, VideoPatch
from shared.videos.video import SERVER_FIELDS
from tests.integration.contents import items_of
from tests.unit.test_videos import EVERYTHING

Schema = dict[str, Any]

ONLY_NEW = set(SERVER_FIELDS) - {"status"}
"""Fields that an admin may set on a new video, and that cannot be changed afterwards."""

WRITE_MARKS = ("version", "writeId", "updatedFor")
"""Attributes that depend on the number of writes."""


def _fields(model: type[BaseModel]) -> dict[str, Schema]:
    schema = model.model_json_schema()
    return {name: _resolved(field, schema.get("$defs", {})) for name, field in schema["properties"].items()}


def _resolved(schema: Any, definitions: Mapping[str, Schema]) -> Any:
    """A schema without references, and without the words that describe it."""
    if isinstance(schema, list):
        return [_resolved(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    parts = {name: _resolved(part, definitions) for name, part in schema.items() if name != "properties"}
    if "properties" in schema:
        parts["properties"] = {name: _resolved(part, definitions) for name, part in schema["properties"].items()}
    return {name: part for name, part in parts.items() if name not in ("title", "description", "default")}


def _nullable(schema: Schema) -> Schema:
    choices = schema.get("anyOf", [schema])
    return {"anyOf": [*choices, *([] if {"type": "null"} in choices else [{"type": "null"}])]}


def _as_patch(schema: Schema) -> Schema:
    """Return the schema of a merge patch (RFC 7396) for a field of this schema."""
    if "maxProperties" in schema:
        # Null removes an entry, so a patch may name all the old ones and all the new ones.
        entries = {name: _nullable(_as_patch(entry)) for name, entry in schema["patternProperties"].items()}
        return _nullable(schema | {"patternProperties": entries, "maxProperties": 2 * schema["maxProperties"]})
    return {name: part for name, part in schema.items() if name != "required"}


class TestModels:
    @pytest.mark.parametrize(
        ("new", "patch", "only_new"), [(NewVideo, VideoPatch, ONLY_NEW), (NewPlaylist, PlaylistPatch, set())]
    )
    def test_a_patch_takes_every_field_that_a_client_writes_with_its_limits(
        self, new: type[BaseModel], patch: type[BaseModel], only_new: set[str]
    ) -> None:
        expected = {name: _as_patch(schema) for name, schema in _fields(new).items() if name not in only_new}
        if "status" in expected:
            # The server sets the status of a new video; a video is never without one.
            expected["status"] = next(part for part in expected["status"]["anyOf"] if part != {"type": "null"})
        assert _fields(patch) == expected


def _items(table: Table, entity: Entity, **key: str) -> list[Item]:
    """All items in the partition of a video or playlist, without its id and what chance decides of it."""
    (own_id,) = key.values()
    items = [item for item in items_of(table) if item[PARTITION_KEY] == entity.key(**key)[PARTITION_KEY]]
    for item in items:
        for name in ("relShard", "categoryShard"):
            assert item.pop(name, 0) in (0, shard_of(own_id))
    return [
        {
            name: value.replace(own_id, "<id>") if isinstance(value, str) else value
            for name, value in item.items()
            if name not in WRITE_MARKS
        }
        for item in sorted(items, key=lambda item: str(item[SORT_KEY]))
    ]


CONTENTS = {
    "scheduled": EVERYTHING,
    "listed": EVERYTHING | {"publishAt": NOW - 10},
    "private": EVERYTHING | {"visibility": "private"},
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
class TestVideos:
    def test_a_video_that_is_filled_in_by_patches_is_stored_like_one_that_was_created_so(
        self, api: Api, table: Table, content: dict[str, Any]
    ) -> None:
        created = _ready(api, **content)
        expected = _items(table, VIDEO, videoId=created)
        assert api.patch(f"/v1/videos/{created}", dict.fromkeys(UNIQUE)).status == 200  # frees its unique values
        filled = _ready(api)

        for name, value in content.items():
            reply = api.patch(f"/v1/videos/{filled}", {name: value})
            assert reply.status == 200, (name, reply.body)

        assert _items(table, VIDEO, videoId=filled) == expected

    def test_a_video_that_was_emptied_by_patches_is_stored_like_one_that_was_created_without(
        self, api: Api, table: Table, content: dict[str, Any]
    ) -> None:
        expected = {name: content[name] for name in ("title", "visibility")}
        created = _ready(api, **expected)
        emptied = _ready(api, **content)

        # A video keeps its season and number only as long as it belongs to a series.
        for name in sorted(content.keys() - expected.keys(), key=lambda name: name == "seriesId"):
            reply = api.patch(f"/v1/videos/{emptied}", {name: None})
            assert reply.status == 200, (name, reply.body)

        assert _items(table, VIDEO, videoId=emptied) == _items(table, VIDEO, videoId=created)


def _ready(api: Api, **content: Any) -> str:
    video_id = str(api.create(**content)["videoId"])
    for status in ("processing", "ready"):
        assert api.patch(f"/v1/videos/{video_id}", {"status": status}).status == 200
    return video_id


def test_a_playlist_that_is_filled_in_by_patches_is_stored_like_one_that_was_created_so(api: Api, table: Table) -> None:
    content = {"title": "Evenings", "description": "For the long ones", "visibility": "public"}
    assert set(content) == set(NewPlaylist.model_fields)
    created, filled = (
        api.post("/v1/playlists", body).json["playlistId"] for body in (content, {"title": "To be filled in"})
    )

    for name, value in content.items():
        assert api.patch(f"/v1/playlists/{filled}", {name: value}).status == 200, name

    assert _items(table, PLAYLIST, playlistId=filled) == _items(table, PLAYLIST, playlistId=created)
