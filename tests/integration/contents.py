"""Contents of a table, in a form in which two runs of the same request can be compared."""

import json
import zlib
from typing import Any

from shared.aws.dynamodb import Table
from shared.core.attributes import Item, decode_item
from shared.schema import PARTITION_KEY, SORT_KEY, VIDEO, shard_of

SHARDED = ("relShard", "categoryShard")


def items_of(table: Table) -> list[Item]:
    """Return all items of the table."""
    pages: Any = table.client.get_paginator("scan").paginate(TableName=table.name, ConsistentRead=True)
    return [decode_item(item) for page in pages for item in page["Items"]]


def videos_of(table: Table) -> list[Item]:
    """Return the items of all videos, without their child items."""
    videos = [item for item in items_of(table) if item[PARTITION_KEY].startswith(VIDEO.partition_prefix)]
    return [item for item in videos if item[SORT_KEY] == VIDEO.sk]


def contents(table: Table) -> list[str]:
    """Return all items as sorted lines of JSON. Write ids and request ids are removed, and video ids are replaced by
    numbers, because they are random.

    Also assert that each item has the shard that its video's id determines.
    """
    items = items_of(table)
    video_ids = sorted(item["videoId"] for item in items if "version" in item)
    lines = []
    for item in items:
        for name in SHARDED:
            assert item.pop(name, shard := shard_of(item.get("videoId", ""))) == shard
        for name in ("writeId", "updatedFor"):
            item.pop(name, None)
        if "answer" in item:
            item["answer"] = json.loads(zlib.decompress(item["answer"]))
        lines.append(anonymous(json.dumps(item, sort_keys=True, default=sorted), video_ids))
    return sorted(lines)


def anonymous(text: str, ids: list[str]) -> str:
    """Return the text with each id replaced by its number."""
    for number, video_id in enumerate(ids, start=1):
        text = text.replace(video_id, f"<video {number}>")
    return text


def without_identity(content: Any) -> Any:
    """Return a document without the id that the server created."""
    return {name: value for name, value in content.items() if name != "videoId"}
