"""Public change events: the changed item, the author and the field names, without old or new values."""

import base64
import hashlib
from collections.abc import Collection
from typing import Any

from shared.core.attributes import Item
from shared.schema import PARTITION_KEY, SORT_KEY

LONGEST_FIELDS = 1000
"""Bytes of the fields that a change names, all together: who needs more reads the video, or its trail."""

_NAMES = ("videoId", "playlistId", "personId", "region", "language", "kind", "version", "at", "by", "correlationId")

Change = dict[str, Any]
"""Plain JSON: `id`, `type`, of `_NAMES` those that there are, `userId` (the owner), `fields`, and `fieldsOmitted` if some are."""


def change_of(entry: Item) -> Change:
    """The change that an audit entry is about; the same entry always makes the same."""
    fields: list[str] = []
    length = 0
    for change in entry.get("changes", ()):
        length += len(change["field"].encode())
        if length > LONGEST_FIELDS:
            break
        fields.append(change["field"])
    made: Change = {"id": _id(entry), "type": f"{entry['entity']}.{entry['action']}"}
    made |= {name: entry[name] for name in _NAMES if name in entry}
    if "owner" in entry:
        made["userId"] = entry["owner"]
    made["fields"] = fields
    if "omitted" in entry or len(fields) < len(entry.get("changes", ())):
        made["fieldsOmitted"] = True
    return made


def _id(entry: Item) -> str:
    """20 characters, the same for the same entry."""
    digest = hashlib.sha256(f"{entry[PARTITION_KEY]}#{entry[SORT_KEY]}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:15]).decode()


def is_of(change: Change, types: Collection[str]) -> bool:
    """Whether a change is of one of these types, which may be groups such as `video.*`; without any: always."""
    type_: str = change["type"]
    return not types or type_ in types or f"{type_.partition('.')[0]}.*" in types
