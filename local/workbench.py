"""Data model for NoSQL Workbench: the tables of shared/schema.py with sample items, in version 3.0 of Workbench's format.

The format has limits. The description of the model states them:

- An index has only one partition attribute and one sort attribute. The model contains the first attribute of each key.
- An attribute has one type in a table. Therefore an attribute name has the same sample value in all items.
- A facet is meant for one access pattern. The model has one facet for each entity instead, with the entity's items.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from local.access_patterns import ACCESS_PATTERNS
from local.data_model import COMMON, ITEMS, ItemDescription, names_in
from shared import schema
from shared.core.attributes import Item, encode_item
from shared.openapi.document import document
from shared.schema import PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE, Entity, Index

VIDEO_ID = "63ee71db-3471-44a8-805a-b7d7d88c34b4"
TIME = 1_795_384_206
HOUR, DAY = "2026-11-22T13", "2026-11-22"
_RELATION = ("rel", "relShard", "relSort", "relId")


def _each(names: str, value: Any) -> dict[str, Any]:
    """Return a dictionary with the same value for each name. `names` are separated by spaces."""
    return dict.fromkeys(names.split(), value)


def _documented_samples() -> Iterator[tuple[str, Any]]:
    """Yield name and example of each path parameter, and of each member of a response, from the OpenAPI document."""
    for operation in (operation for path in document()["paths"].values() for operation in path.values()):
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                if isinstance(example := content.get("example"), dict):
                    yield from ((name, value) for name, value in example.items() if isinstance(value, str | int))
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "path" and "example" in parameter:
                yield parameter["name"], parameter["example"]


SAMPLES: Mapping[str, Any] = {
    **dict(_documented_samples()),
    "engine": "embedded",
    **_each(
        "createdAt updatedAt publishAt queuedAt sentAt startedAt finishedAt requestedAt ratedAt addedAt "
        "checkedAt calmedAt computedAt rotatedAt failingSince wokenAt nextAttemptAt oldestWaiting "
        "caughtUpAt testedAt publishedAt rebuildAt tidiedAt at asOf since from",
        TIME,
    ),
    **_each(
        "expiresAt purgeAt leaseUntil seenUpTo checked",
        TIME + 90 * 86_400,
    ),
    **_each(
        "version schemaVersion attempt spent sends ordering cues size sum votes likes dislikes value "
        "uploaded processing ready failed deleted bytes milliseconds playlists jobs entryCount count "
        "repeated shards spread watched keyed unpublished expired views batches examined reverted "
        "unchanged skipped waiting stalls turn failures answerMs generation form films first progress "
        "partSize season episode walks uploads",
        1,
    ),
    **_each(
        "like dryRun isAdmin force attended walked moved repairs",
        True,
    ),
    **_each(
        "seen videos categories attempts answer delivered entries findings found sizes",
        ["..."],
    ),
    **{
        name: {"...": "..."}
        for name in (
            "error",
            "folded",
            "imported",
            "draft",
            "report",
            "stamps",
            "input",
            "output",
            "pictures",
            "limits",
            "outcomes",
        )
    },
    "by": {"id": "alice", "kind": "person"},
    "chapters": [{"start": 0, "title": "Countdown"}],
    "changes": [{"field": "/title", "from": "Lunch", "to": "Launch"}],
    "counted": {"category": "keynotes", "status": "ready"},
    "ids": ["0b6c0a4e-93a4-4f6b-9d55-3f6f0f4d7a10"],
    "metadata": {"director": "Ada Mason"},
    "moves": [{"videoId": VIDEO_ID, "to": "V"}],
    "origins": {"duration": "job"},
    "places": {"0": {"first": 1, "count": 3}},
    "source": {"uri": f"s3://sources/{VIDEO_ID}/launch.mp4"},
    "starts": {"0": 41},
    "tally": {"likes": 1},
    "tried": {"OdJ1ZKyxEpQNWYIvafT2": 3},
    "videoId": VIDEO_ID,
    "seriesId": VIDEO_ID,
    "userId": "alice",
    "lane": schema.lane_of("alice"),
    "owner": "alice",
    "follows": "alice",
    "requestedBy": "alice",
    "updatedBy": "alice",
    "uploadId": "019775a1c00-9f86d081884c7d65",
    "multipartId": "019775a1c00-9f86d081884c7d65",
    "upload": "019775a1c00-9f86d081884c7d65",
    "uri": f"s3://sources/{VIDEO_ID}/launch.mp4",
    "contentType": "video/mp4",
    "externalId": "crm-7",
    "slug": "launch",
    "title": "Launch",
    "description": "The launch, from the pier",
    "duration": 354_000,
    "fileSize": 48_318_382,
    "format": "mp4",
    "resolution": "1920x1080",
    "videoCodec": "h264",
    "audioCodec": "aac",
    "frameRate": 25,
    "resolutions": {"720p": f"s3://media/renditions/{VIDEO_ID}/720p.mp4"},
    "thumbnails": {"poster": {"url": f"https://pictures.example/{VIDEO_ID}/poster.jpg", "width": 1280, "height": 720}},
    "poster": f"https://pictures.example/{VIDEO_ID}/poster.jpg",
    "posterTime": 7_500,
    "tags": {"drama"},
    "tag": "drama",
    "category": "keynotes",
    "folder": "events/2026",
    "categoryShard": schema.shard_of(VIDEO_ID),
    "order": "rating",
    "orderBy": "title",
    "orderValue": "launch",
    "releaseYear": 1993,
    "language": "mi",
    "region": "NZ",
    "titles": [{"title": "Whakarewa"}],
    "status": "ready",
    "visibility": "public",
    "updatedAs": "person",
    "updatedFor": "2e223274-37d8-45a5-b79f-397330adbe71",
    "correlationId": "2e223274-37d8-45a5-b79f-397330adbe71",
    "changeset": "2e223274-37d8-45a5-b79f-397330adbe71",
    "changesetId": "2e223274-37d8-45a5-b79f-397330adbe71",
    "writeId": "9f86d081884c7d65",
    "lastRank": "V",
    "rank": "V",
    "kind": "poster",
    "state": "queued",
    "worker": "thumbnails",
    "lease": "9f86d081884c7d65",
    "inputHash": "9f86d081884c7d659a2feaa0c55ad015",
    "direct": 3,
    "parent": "events",
    "folderName": "2026",
    "personId": "ada",
    "name": "Ada Mason",
    "roles": [{"category": "director"}],
    "text": "9f86d081884c7d659a2feaa0c55ad015",
    "origin": "owner",
    "id": "9f86d081884c7d659a2feaa0c55ad015",
    "hour": HOUR,
    "day": DAY,
    "date": DAY,
    "playlistId": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "revertId": "1bedcc48-be9f-4c88-b6a6-021a70fa5077",
    "webhookId": "0b6c0a4e-93a4-4f6b-9d55-3f6f0f4d7a10",
    "url": "https://hooks.example/videos",
    "types": ["video.changed"],
    "job": f"{VIDEO_ID}/poster",
    "last": "video",
    "of": f"VIDEO#{VIDEO_ID}",
    "after": f"VIDEO#{VIDEO_ID}",
    "testId": "OdJ1ZKyxEpQNWYIvafT2",
    "previous": "index/1",
    "fingerprint": "9f86d081884c7d65",
    "digest": "9f86d081884c7d65",
    "entity": "video",
    "action": "changed",
    "sequence": "000000017953842068630000000004",
    # Parts of keys that are no attributes:
    "shard": 0,
    "subject": "alice",
    "operation": "createVideo",
    "key": "7c9e6679",
    "queue": "thumbnails",
    "importId": "5f1d7a84",
    "part": "part-video",
    "window": "day",
    "total": "views",
    "span": 60,
    "start": TIME,
    "position": "000000000001",
    "field": "slug",
    "value": "launch",
}
"""Sample values by name, for attributes and for parts of keys."""


def _related(rel: str, sort: int, id_: str, sharded_by: str | None = None) -> Item:
    return dict(zip(_RELATION, (rel, schema.shard_of(sharded_by) if sharded_by else 0, sort, id_), strict=True))


def _video(rel: str, **more: Any) -> Item:
    return _related(rel, TIME, VIDEO_ID, VIDEO_ID) | more


def _unlisted(number: int, status: str) -> Item:
    id_ = f"{VIDEO_ID[:-1]}{number}"
    return _related(schema.status_relation(status), TIME, id_, id_) | {
        "videoId": id_,
        "status": status,
        "visibility": "private",
        # `None` removes an attribute. Workbench shows any item with a category in the indexes of categories.
        **dict.fromkeys(("category", "categoryShard")),
    }


_USER, _PLAYLIST, _WEBHOOK = (str(SAMPLES[name]) for name in ("userId", "playlistId", "webhookId"))
VARIANTS: Mapping[Entity, tuple[Item, ...]] = {
    schema.VIDEO: (_video(schema.FEED), *map(_unlisted, range(3), ("ready", "processing", "failed"))),
    schema.JOB: tuple(
        _related(schema.job_relation(state), TIME, f"{VIDEO_ID}/{kind}") | {"kind": kind, "state": state}
        for kind, state in (("poster", "queued"), ("storyboard", "running"), ("transcode.720p", "queued"))
    ),
    schema.CREDIT: (_related(schema.person_relation("ada"), 1993, VIDEO_ID),),
    schema.RELEASE: (_related(schema.region_relation("NZ"), TIME, f"{VIDEO_ID}#mi", VIDEO_ID),),
    schema.TAG: (_video(schema.tag_relation("drama")),),
    schema.EPISODE: (_related(schema.series_relation(VIDEO_ID, _USER), 1_000_002, VIDEO_ID),),
    schema.FOLDER: (_related(schema.folders_relation(_USER), 0, f"events/2026//{TIME:012}/{VIDEO_ID}"),),
    schema.SCHEDULE: (_video(schema.SCHEDULED),),
    schema.ORDER: ({"orderBy": "rating", "orderValue": "0950"},),
    schema.MARKER: (_related(schema.counted_relation(_USER), 0, VIDEO_ID, VIDEO_ID),),
    schema.RATING: (_related(schema.rated_relation(VIDEO_ID), 0, _USER, _USER),),
    schema.PROFILE: (_related(schema.USERS, 0, _USER),),
    schema.PLAYLIST: (_related(schema.playlists_relation(_USER), TIME, _PLAYLIST),),
    schema.MEMBERSHIP: (_related(schema.in_playlist_relation(VIDEO_ID), TIME, _PLAYLIST),),
    schema.TAG_COUNT: (_related(schema.TAGS, 1, "drama"),),
    schema.VIEW_HOUR: (_related(schema.viewed_relation(HOUR), 1, VIDEO_ID, VIDEO_ID),),
    schema.VIEW_DAY: (_related(schema.viewed_relation(DAY), 1, VIDEO_ID, VIDEO_ID),),
    schema.WEBHOOK: tuple(
        _related(schema.follower_relation(user), TIME, id_) | {"webhookId": id_}
        for user, id_ in ((_USER, _WEBHOOK), (None, f"{_WEBHOOK[:-1]}1"))
    ),
    schema.WEBHOOK_STATE: (_related(schema.DUE, TIME, _WEBHOOK),),
    schema.CHANGES: ({}, {"position": schema.TAIL}),
    schema.OWNER_CHANGES: ({}, {"position": schema.TAIL}),
}
"""Attributes that override SAMPLES. Maps an entity to a tuple with one element for each of its sample items. An entity
that is missing here has one sample item."""

OMITTED = frozenset({"deletedAt", "failure", "pausedBecause", "paused", "removing", "statusBeforeDelete"})
"""Names of the attributes that the sample items omit, because most stored items do not have them."""

DESCRIPTION = f"""Generated from shared/schema.py and local/access_patterns: run `python -m local.readme`.

Each facet is an entity, with the templates of its keys. An access pattern is a Query of a table or of an index:

{{patterns}}

NoSQL Workbench cannot show all of the model:
- Indexes have multi-attribute keys, and this format has one attribute for each. It names the first: shards, and the ids that order
  ties, are attributes only. So UserIdIndex also shows playlists and webhooks, which DynamoDB leaves out because they have no videoId.
- An attribute has one type in a table. Compressed and binary values are shown as lists.
- {schema.HEALTH.name}: the item is never written, so it has no facet.
"""


def model() -> str:
    """Return the model as JSON."""
    patterns = "\n".join(f"- {pattern.purpose}: {pattern.key}" for pattern in ACCESS_PATTERNS)
    return (
        json.dumps(
            {
                "ModelName": "Video metadata",
                "ModelMetadata": {
                    "Author": "",
                    "DateCreated": "Nov 26, 2026, 12:00 AM",
                    "DateLastModified": "Nov 26, 2026, 12:00 AM",
                    "Description": DESCRIPTION.format(patterns=patterns),
                    "AWSService": "Amazon DynamoDB",
                    "Version": "3.0",
                },
                "DataModel": [
                    _table(schema.TABLE_NAME, schema.ENTITIES, schema.INDEXES),
                    _table(schema.AUDIT_TABLE_NAME, schema.AUDIT_ENTITIES, schema.AUDIT_INDEXES),
                ],
            },
            indent=1,
        )
        + "\n"
    )


def _table(name: str, entities: Iterable[Entity], indexes: Iterable[Index]) -> dict[str, Any]:
    described = {item.entity: item for item in ITEMS}
    items = {entity: samples(described[entity]) for entity in entities if entity is not schema.HEALTH}
    types = {
        attribute: kind
        for group in items.values()
        for item in group
        for attribute, value in encode_item(item).items()
        for kind in value
    }
    return {
        "TableName": name,
        "KeyAttributes": _keys(PARTITION_KEY, SORT_KEY, types),
        "NonKeyAttributes": [
            {"AttributeName": attribute, "AttributeType": kind}
            for attribute, kind in types.items()
            if attribute not in (PARTITION_KEY, SORT_KEY)
        ],
        "TableFacets": [
            {
                "FacetName": entity.name,
                "KeyAttributeAlias": {"PartitionKeyAlias": entity.pk, "SortKeyAlias": entity.sk},
                "TableData": [encode_item(item) for item in group],
                "NonKeyAttributes": list(
                    dict.fromkeys(name for item in group for name in item if name not in (PARTITION_KEY, SORT_KEY))
                ),
                "DataAccess": {"MySql": {}},
            }
            for entity, group in items.items()
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "KeyAttributes": _keys(index.partition[0].name, index.sort[0].name, types),
                "Projection": (
                    {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.projection)}
                    if index.projection
                    else {"ProjectionType": "KEYS_ONLY"}
                ),
            }
            for index in indexes
        ],
        "DataAccess": {"MySql": {}},
        "BillingMode": "PAY_PER_REQUEST",
    }


def _keys(partition: str, sort: str, types: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {
        role: {"AttributeName": name, "AttributeType": types[name]}
        for role, name in (("PartitionKey", partition), ("SortKey", sort))
    }


def samples(described: ItemDescription) -> list[Item]:
    """Return the sample items of an entity, with all documented attributes of the entity except OMITTED."""
    names = (names_in(COMMON) | described.names) - OMITTED
    if "expires" not in described.about.lower():
        names -= {TTL_ATTRIBUTE}
    found = []
    for variant in VARIANTS.get(described.entity, ({},)):
        parts = {**SAMPLES, **variant}
        key = described.entity.key(**{name: value for name, value in parts.items() if isinstance(value, str | int)})
        found.append(key | {name: parts[name] for name in sorted(names) if parts.get(name) is not None})
    return found
