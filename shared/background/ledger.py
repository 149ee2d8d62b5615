"""Exactly-once totals: a total contains each stream change once, although changes may arrive repeatedly or out of
order.

DynamoDB and Lambda preserve only the order of changes of one item. Changes of one partition key may be in several
shards, and Lambda processes a shard in parallel batches. Therefore a sequence number cannot serve as a checkpoint.
Instead, each total stores the deduplication keys of the changes that it contains. The newest keys are in the item of
the total, so one write updates the total and these keys. Older keys are in separate items, the pages.
https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-eventsourcemapping.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import groupby

from shared.aws.dynamodb import Key, QueryRequest, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, retry_on_conflict
from shared.core.attributes import Item, decode_item
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS
from shared.schema import PARTITION_KEY, PROCESSED_PAGE, SCHEMA_VERSION, SORT_KEY, TTL_ATTRIBUTE

TALLY, SEEN, SEEN_UP_TO = "tally", "seen", "seenUpTo"
"""Names of attributes of a total's item. TALLY is the number of the item's writes, and SEEN are the newest
deduplication keys. SEEN_UP_TO is the time of the newest key that was moved to a page."""
ATTRIBUTES = (TALLY, SEEN, SEEN_UP_TO)

AT_BYTES, ID_BYTES = 4, 8
"""Bytes of the two parts of a deduplication key: the time of the change, and the hash of its id."""
KEY_BYTES = AT_BYTES + ID_BYTES
"""Bytes of a deduplication key."""
ROOM = 40
"""Maximum number of deduplication keys in a total's item. The item stays below 1 KB, so a write costs 1 WRU."""
RETAINED = 8
"""Number of newest keys that remain in a total's item when the other keys are moved to pages.

Most changes that arrive out of order are newer than the keys in the pages, so they need no query for pages."""
AT_ONCE = ROOM - RETAINED
"""Maximum number of changes that one write adds to a total."""

REPEATED_FOR = 25 * HOUR_SECONDS
"""Maximum seconds by which a deduplication key in a total's item may be older than the newest key. Older keys are
removed.

The stream redelivers a change for up to 24 hours, and the queue preserves the order per video. Therefore an older
change cannot be delivered again."""
PAGES_FOR = 6 * DAY_SECONDS
"""Seconds until a page expires. No change is older than this when it arrives. A message may wait in the queue for 4
days, and its changes may be one day old when the message is sent."""
SPANS = (1, 60, HOUR_SECONDS, DAY_SECONDS)
"""Lengths in seconds of the periods that a page may cover. A page uses the shortest length that covers its keys.

Therefore four queries, one per length, find all pages that may contain the key of a given second."""
PAGES = 100
"""Maximum number of pages that one Query reads."""

Sums = Mapping[str, int]
"""Amounts to add, by the name of the total's attribute."""


def deduplication_key(event_id: str, at: int) -> str:
    """Return the deduplication key of a change, in hexadecimal digits.

    It consists of the time in epoch seconds and a 64-bit hash of the change's id. Two changes of the same second have
    equal keys with a probability of 5e-20. In this case, only one of them is counted.
    """
    return (at.to_bytes(AT_BYTES, "big") + blake2b(event_id.encode(), digest_size=ID_BYTES).digest()).hex()


@dataclass(frozen=True)
class Total:
    """Total of a video, such as its number of views, to which a Ledger adds changes."""

    name: str
    """Name that is part of the keys of pages: `views` or `ratings`."""
    video_id: str
    key: Key
    change: Callable[[Sums, Item], Expression]
    """Function that returns an update expression. It receives the amounts to add and the attributes to set."""
    may_create: Callable[[], bool]
    """Function that returns whether the total's item may be created. It may be created only while its video exists."""


@dataclass(frozen=True)
class _State:
    """Deduplication state in the item of a total. `tally` is the number of writes of the item.

    `keys` are the newest deduplication keys. `up_to` is the time of the newest key in the pages, in epoch seconds.
    """

    exists: bool
    tally: int
    keys: frozenset[bytes]
    up_to: int

    @classmethod
    def of(cls, item: Item | None) -> "_State":
        item_or_none = item or {}
        packed: bytes = item_or_none.get(SEEN, b"")
        keys = frozenset(packed[start : start + KEY_BYTES] for start in range(0, len(packed), KEY_BYTES))
        return cls(item is not None, int(item_or_none.get(TALLY, 0)), keys, int(item_or_none.get(SEEN_UP_TO, 0)))

    @property
    def condition(self) -> Expression:
        """Condition that the total's item is unchanged since it was read. It fails if the item was purged since then,
        so no write recreates a purged item."""
        if not self.exists:
            return ABSENT
        if not self.tally:
            return Expression.of("attribute_exists(#pk) AND attribute_not_exists(#tally)")
        return Expression.of("#tally = :read", read=self.tally)


class Ledger:
    """Writer that adds each change to a total once, and stores the deduplication keys of the changes."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, total: Total, changes: Mapping[str, Sums], now: int) -> int:
        """Add the changes that the total does not contain yet. Return the number of these changes.

        `changes` has the amounts of each change, by deduplication key. `now` is in epoch seconds.

        Costs 1 RRU, and 1 WRU per 32 changes. It costs more if changes are so late that pages must be read. Raises
        Unavailable and WriteContention, after which some changes may have been added. A retry skips these changes.
        """
        waiting = {bytes.fromhex(key): sums for key, sums in changes.items()}
        attributes = (PARTITION_KEY, *ATTRIBUTES)
        added = 0

        def attempt(present: Item | None) -> int:
            nonlocal added
            state = _State.of(present)
            new = self._not_counted(total, state, waiting)
            if not new or not (state.exists or total.may_create()):
                return added
            for start in range(0, len(new), AT_ONCE):
                some = new[start : start + AT_ONCE]
                state = self._write(total, state, {key: waiting[key] for key in some}, now)
                added += len(some)
            return added

        read = self.table.get(total.key, attributes=attributes, consistent=True)
        return retry_on_conflict(attempt, "the counts of the video", present=read, pause=self.table.pause)

    def _not_counted(self, total: Total, state: _State, keys: Iterable[bytes]) -> list[bytes]:
        """Return the deduplication keys of the changes that the total does not contain, oldest first.

        Reads pages if necessary.
        """
        unknown = set(keys) - state.keys
        late = {_at(key) for key in unknown if _at(key) <= state.up_to}
        return sorted(unknown - self._in_pages(total, late))

    def _in_pages(self, total: Total, times: Collection[int]) -> set[bytes]:
        """Return all deduplication keys in the pages that may contain a key of these times (epoch seconds)."""
        prefixes = sorted({_page_key(total, span, time, "") for time in times for span in SPANS})
        keys: set[bytes] = set()
        firsts = gather(partial(self.table.begin_query, **_pages_from(prefix, None)) for prefix in prefixes)
        for page, prefix in zip(require_all(firsts), prefixes, strict=True):
            while True:
                for item in page.items:
                    keys |= _State.of(item).keys
                if page.last_key is None:
                    break
                page = self.table.query(**_pages_from(prefix, decode_item(page.last_key)))
        return keys

    def _write(self, total: Total, state: _State, changes: Mapping[bytes, Sums], now: int) -> _State:
        """Add these changes to the total, and return the new deduplication state. The total must not contain them yet.

        Raises ConditionFailed if another writer changed the total concurrently.
        """
        oldest = max(map(_at, [*state.keys, *changes])) - REPEATED_FOR
        retained = sorted(key for key in state.keys if _at(key) >= oldest)
        up_to = state.up_to
        if len(retained) + len(changes) > ROOM:
            # Pages are written first, so that each key is always in a page or in the total's item. If the next write
            # fails, they do no harm.
            self._keep_pages(total, retained[:-RETAINED], now)
            up_to = max(up_to, _at(retained[-RETAINED - 1]))
            retained = retained[-RETAINED:]
        keys = sorted([*retained, *changes])
        remembered = {TALLY: state.tally + 1, SEEN: b"".join(keys), SEEN_UP_TO: up_to}
        change = total.change(_summed(changes.values()), remembered)
        self.table.write(self.table.update(total.key, change, condition=state.condition))
        return _State(True, state.tally + 1, frozenset(keys), up_to)

    def _keep_pages(self, total: Total, keys: Sequence[bytes], now: int) -> None:
        for span, start, some in _paged(keys):
            content = b"".join(some)
            # The page is named by a hash of all its keys, because a failed attempt may have stored another page with
            # the same first key.
            pk, sk = _page_key(total, span, start, blake2b(content, digest_size=ID_BYTES).hexdigest())
            page = {
                PARTITION_KEY: pk,
                SORT_KEY: sk,
                SEEN: content,
                TTL_ATTRIBUTE: now + PAGES_FOR,
                "schemaVersion": SCHEMA_VERSION,
            }
            try:
                self.table.write(self.table.put(page, condition=ABSENT))
            except ConditionFailed:
                continue  # an earlier attempt has stored the same page


def _paged(keys: Sequence[bytes]) -> Iterator[tuple[int, int, list[bytes]]]:
    """Split sorted deduplication keys into pages.

    Yields three values for each page: its span in seconds, the time of its first key, and its keys.
    """
    for _, of_day in groupby(keys, lambda key: _at(key) // DAY_SECONDS):
        some = list(of_day)
        first, last = _at(some[0]), _at(some[-1])
        span = next(span for span in SPANS if first // span == last // span)
        yield span, first, some


def _pages_from(prefix: tuple[str, str], start: Item | None) -> QueryRequest:
    """Return the parameters of a Query for pages. `prefix` consists of a partition key and the prefix of the sort keys.

    `start` is the key after which the Query begins; `None` for the first Query.
    """
    return {
        "index": None,
        "condition": Expression.of("#pk = :pk AND begins_with(#sk, :sk)", pk=prefix[0], sk=prefix[1]),
        "attributes": (SEEN,),
        "limit": PAGES,
        "consistent": True,
        "start": start,
    }


def _page_key(total: Total, span: int, time: int, digest: str) -> tuple[str, str]:
    key = PROCESSED_PAGE.key(
        videoId=total.video_id, total=total.name, span=span, start=time // span * span, digest=digest
    )
    return key[PARTITION_KEY], key[SORT_KEY]


def _at(key: bytes) -> int:
    return int.from_bytes(key[:AT_BYTES], "big")


def _summed(additions: Iterable[Sums]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for addition in additions:
        for name, value in addition.items():
            sums[name] = sums.get(name, 0) + value
    return {name: value for name, value in sums.items() if value}
