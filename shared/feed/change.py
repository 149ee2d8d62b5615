"""Public change events: the changed item, the author and the field names, without old or new values."""

import base64
import hashlib
from collections.abc import Collection
from typing import Any

from shared.core.attributes import Item
from shared.schema import PARTITION_KEY, SORT_KEY

LONGEST_FIELDS = 1000
"""Maximum total bytes of the field names in a change. Further names are omitted. Consumers that need all names read the
audit trail."""

_NAMES = ("videoId", "playlistId", "personId", "region", "language", "kind", "version", "at", "by", "correlationId")

Change = dict[str, Any]
"""Change as a JSON object: `id`, `type`, attributes in `_NAMES`, `userId` (the owner) and `fields` (names of the
changed fields). `fieldsOmitted` is true if `fields` is incomplete."""


def change_of(entry: Item) -> Change:
    """Return the public change of an audit entry. The result for an entry is always the same, including its id."""
    fields: list[str] = []
    length = 0
    for change in entry.get("changes", ()):
        length += len(change["field"].encode())
        if length > LONGEST_FIELDS:
            break
        fields.append(change["field"])
    described: Change = {"id": change_id(entry), "type": f"{entry['entity']}.{entry['action']}"}
    described |= {name: entry[name] for name in _NAMES if name in entry}
    if "owner" in entry:
        described["userId"] = entry["owner"]
    described["fields"] = fields
    if "omitted" in entry or len(fields) < len(entry.get("changes", ())):
        described["fieldsOmitted"] = True
    return described


def change_id(entry: Item) -> str:
    """Return the id of the change that an audit entry records: 20 characters, derived from the entry's key."""
    digest = hashlib.sha256(f"{entry[PARTITION_KEY]}#{entry[SORT_KEY]}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:15]).decode()


def has_type(change: Change, types: Collection[str]) -> bool:
    """Return whether `types` contains the change's type, such as `video.created`, or its group, such as `video.*`.

    Returns `True` if `types` is empty.
    """
    type_: str = change["type"]
    return not types or type_ in types or f"{type_.partition('.')[0]}.*" in types
