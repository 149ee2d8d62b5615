"""Changes for tests, and a function that appends them to a feed."""

import hashlib
from collections.abc import Collection
from typing import Any

from local.testbed.harness import NOW
from shared.feed.change import Change
from shared.feed.log import Feed

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def change(number: int = 1, **fields: Any) -> Change:
    """Return a change of one of alice's videos. `number` determines the id, the version and the time. `fields` override
    any field."""
    made: Change = {
        "id": f"change-{number:04}",
        "type": "video.changed",
        "videoId": VIDEO,
        "version": number,
        "at": NOW * 1000 + number,
        "by": {"kind": "person", "id": "alice"},
        "correlationId": hashlib.sha256(str(number).encode()).hexdigest()[:32],
        "userId": "alice",
        "fields": ["/title"],
    }
    return made | fields


def append_changes(feed: Feed, *changes: Change, repeated: Collection[str] = ()) -> None:
    """Append changes to the feed, as the audit function does. `repeated` lists the ids of changes that may be in the
    feed already.
    """
    feed.prepare(changes)
    feed.append(changes, repeated)
