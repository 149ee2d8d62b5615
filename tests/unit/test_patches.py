"""Patches can set every field that a new video or playlist can have, with the same limits and the same result."""

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
"""Fields that an admin can set on a new video, but no client can change later."""

WRITE_MARKS = ("version", "writeId", "updatedFor")
"""Attributes that differ with the number of writes."""


def _fields(model: type[BaseModel]) -> dict[str, Schema]:
    schema = model.model_json_schema()
    return {name: _resolved(field, schema.get("$defs", {})) for name, field in schema["properties"].items()}


def _resolved(schema: Any, definitions: Mapping[str, Schema]) -> Any:
    """Return a schema with its references resolved, and without titles, descriptions and defaults."""
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
        # Null removes an entry, so a patch may remove all old entries and add the maximum of new ones.
        entries = {name: _nullable(_as_patch(entry)) for name, entry in schema["patternProperties"].items()}
        return _nullable(schema | {"patternProperties": entries, "maxProperties": 2 * schema["maxProperties"]})
    return {name: part for name, part in schema.items() if name != "required"}


class TestModels:
    @pytest.mark.parametrize(
        ("new", "patch", "only_new"), [(NewVideo, VideoPatch, ONLY_NEW), (NewPlaylist, PlaylistPatch, set())]
    )
    def test_a_patch_accepts_every_client_field_with_its_limits(
        self, new: type[BaseModel], patch: type[BaseModel], only_new: set[str]
    ) -> None:
        expected = {name: _as_patch(schema) for name, schema in _fields(new).items() if name not in only_new}
        if "status" in expected:
            # The server sets the status of a new video. Every video has a status, so a patch cannot remove it.
            expected["status"] = next(part for part in expected["status"]["anyOf"] if part != {"type": "null"})
        assert _fields(patch) == expected


def _items(table: Table, entity: Entity, **key: str) -> list[Item]:
    """Return all items of a video or playlist, with constants for ids and shards, and without `WRITE_MARKS`."""
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
    def test_patching_each_field_stores_the_same_items_as_creating_the_video_with_them(
        self, api: Api, table: Table, content: dict[str, Any]
    ) -> None:
        created = _ready(api, **content)
        expected = _items(table, VIDEO, videoId=created)
        # frees the unique values for the second video
        assert api.patch(f"/v1/videos/{created}", dict.fromkeys(UNIQUE)).status == 200
        filled = _ready(api)

        for name, value in content.items():
            reply = api.patch(f"/v1/videos/{filled}", {name: value})
            assert reply.status == 200, (name, reply.body)

        assert _items(table, VIDEO, videoId=filled) == expected

    @pytest.mark.slow
    def test_removing_each_field_stores_the_same_items_as_creating_the_video_without_them(
        self, api: Api, table: Table, content: dict[str, Any]
    ) -> None:
        expected = {name: content[name] for name in ("title", "visibility")}
        created = _ready(api, **expected)
        emptied = _ready(api, **content)

        # `season` and `episode` are valid only with `seriesId`, so the patch that removes `seriesId` comes last.
        for name in sorted(content.keys() - expected.keys(), key=lambda name: name == "seriesId"):
            reply = api.patch(f"/v1/videos/{emptied}", {name: None})
            assert reply.status == 200, (name, reply.body)

        assert _items(table, VIDEO, videoId=emptied) == _items(table, VIDEO, videoId=created)


def _ready(api: Api, **content: Any) -> str:
    video_id = str(api.create(**content)["videoId"])
    for status in ("processing", "ready"):
        assert api.patch(f"/v1/videos/{video_id}", {"status": status}).status == 200
    return video_id


def test_patching_each_field_stores_the_same_items_as_creating_the_playlist_with_them(api: Api, table: Table) -> None:
    content = {"title": "Evenings", "description": "For the long ones", "visibility": "public"}
    assert set(content) == set(NewPlaylist.model_fields)
    created, filled = (
        api.post("/v1/playlists", body).json["playlistId"] for body in (content, {"title": "To be filled in"})
    )

    for name, value in content.items():
        assert api.patch(f"/v1/playlists/{filled}", {name: value}).status == 200, name

    assert _items(table, PLAYLIST, playlistId=filled) == _items(table, PLAYLIST, playlistId=created)
