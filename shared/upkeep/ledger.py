"""Adds what the stream brings to a total, each change once, however often, late or out of order it is delivered.

DynamoDB and Lambda keep the changes of one item in order, and no more: those of one partition key may lie in several shards,
and Lambda reads a shard in several lanes. So no sequence number says how far a total has counted. Instead the total remembers
which changes it has counted: the newest in its own item, so that both are one write, older ones in pages beside it.
https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-eventsourcemapping.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import groupby

from shared.aws.dynamodb import Asked, Key, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, retry_on_conflict
from shared.core.attributes import Item, decode_item
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS
from shared.schema import PARTITION_KEY, SCHEMA_VERSION, SEEN_PAGE, SORT_KEY, TTL_ATTRIBUTE

TALLY, SEEN, SEEN_UP_TO = "tally", "seen", "seenUpTo"
"""Attributes of a total: how often it was added to, the marks of the newest changes in it, and the time of the newest
change whose mark is in a page."""
ATTRIBUTES = (TALLY, SEEN, SEEN_UP_TO)

AT_BYTES, ID_BYTES = 4, 8
MARK_BYTES = AT_BYTES + ID_BYTES
ROOM = 40
"""Marks in a total: 480 bytes, so that the item stays below 1 KB, and each of its writes is one unit."""
KEPT = 8
"""Of these, how many stay when the others move to a page. Changes that come a little out of order are still found there."""
AT_ONCE = ROOM - KEPT
"""Changes that one write adds."""

REPEATED_FOR = 25 * HOUR_SECONDS
"""A change may come again for 24 hours, as long as the stream has it, so behind none that is a day newer: the queue keeps
the messages of a video in order. What is so much older than the newest change needs no mark."""
PAGES_FOR = 6 * DAY_SECONDS
"""A message can wait in the queue for 4 days, and bring changes of the day before."""
SPANS = (1, 60, HOUR_SECONDS, DAY_SECONDS)
"""Seconds that a page may cover: the fewest that hold its marks. So those of one second are found by four queries."""
PAGES = 100
"""Pages that one query reads."""

Sums = Mapping[str, int]


def mark_of(event_id: str, at: int) -> str:
    """The mark of a change, in hexadecimal digits: when it was made (epoch seconds), and 64 bits of its id's hash.

    Two of one second share a mark with a probability of 1 in 18 million million million; then one is not counted.
    """
    return (at.to_bytes(AT_BYTES, "big") + blake2b(event_id.encode(), digest_size=ID_BYTES).digest()).hex()


@dataclass(frozen=True)
class Total:
    """A sum that the stream adds to."""

    name: str
    video_id: str
    key: Key
    change: Callable[[Sums, Item], Expression]
    """The change that adds sums and sets these attributes."""
    is_wanted: Callable[[], bool]
    """Whether the total may be made, as what it counts for is there."""


@dataclass(frozen=True)
class _State:
    """What a total remembers of the changes that it has counted; None: there is no such item."""

    exists: bool
    tally: int
    marks: frozenset[bytes]
    up_to: int

    @classmethod
    def of(cls, item: Item | None) -> "_State":
        item_or_none = item or {}
        seen: bytes = item_or_none.get(SEEN, b"")
        marks = frozenset(seen[start : start + MARK_BYTES] for start in range(0, len(seen), MARK_BYTES))
        return cls(item is not None, int(item_or_none.get(TALLY, 0)), marks, int(item_or_none.get(SEEN_UP_TO, 0)))

    @property
    def condition(self) -> Expression:
        """That the total is as it was read. It is never made where it was: a purge may have removed it."""
        if not self.exists:
            return ABSENT
        if not self.tally:
            return Expression.of("attribute_exists(#pk) AND attribute_not_exists(#tally)")
        return Expression.of("#tally = :read", read=self.tally)


class Ledger:
    """Totals in the table, and the pages of what they have counted."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, total: Total, changes: Mapping[str, Sums], now: int) -> int:
        """Add what was not counted yet of these changes, by mark; return how many that were. `now` in epoch seconds.

        1 RRU and 1 WRU for 32 changes. Raises Unavailable and WriteContention, after which some may have been counted; what
        is handed over again is then found to be.
        """
        waiting = {bytes.fromhex(mark): sums for mark, sums in changes.items()}
        attributes = (PARTITION_KEY, *ATTRIBUTES)
        added = 0

        def attempt(present: Item | None) -> int:
            nonlocal added
            state = _State.of(present)
            new = self._not_counted(total, state, waiting)
            if not new or not (state.exists or total.is_wanted()):
                return added
            for start in range(0, len(new), AT_ONCE):
                some = new[start : start + AT_ONCE]
                state = self._write(total, state, {mark: waiting[mark] for mark in some}, now)
                added += len(some)
            return added

        read = self.table.get(total.key, attributes=attributes, consistent=True)
        return retry_on_conflict(attempt, "the counts of the video", present=read, pause=self.table.pause)

    def _not_counted(self, total: Total, state: _State, marks: Iterable[bytes]) -> list[bytes]:
        """Those of the marks that the total has not counted, oldest first."""
        unknown = set(marks) - state.marks
        late = {_at(mark) for mark in unknown if _at(mark) <= state.up_to}
        return sorted(unknown - self._in_pages(total, late))

    def _in_pages(self, total: Total, times: Collection[int]) -> set[bytes]:
        """All marks in the pages that cover these times."""
        prefixes = sorted({_page_key(total, span, time, "") for time in times for span in SPANS})
        marks: set[bytes] = set()
        firsts = gather(partial(self.table.begin_query, **_pages_from(prefix, None)) for prefix in prefixes)
        for page, prefix in zip(require_all(firsts), prefixes, strict=True):
            while True:
                for item in page.items:
                    marks |= _State.of(item).marks
                if page.last_key is None:
                    break
                page = self.table.query(**_pages_from(prefix, decode_item(page.last_key)))
        return marks

    def _write(self, total: Total, state: _State, changes: Mapping[bytes, Sums], now: int) -> _State:
        """Add changes that were not counted, and return what the total then is. Raises ConditionFailed."""
        oldest = max(map(_at, [*state.marks, *changes])) - REPEATED_FOR
        kept = sorted(mark for mark in state.marks if _at(mark) >= oldest)
        up_to = state.up_to
        if len(kept) + len(changes) > ROOM:
            # First of all, so that no mark is in neither. A page says what is true, whether or not the write then succeeds.
            self._keep_pages(total, kept[:-KEPT], now)
            up_to = max(up_to, _at(kept[-KEPT - 1]))
            kept = kept[-KEPT:]
        marks = sorted([*kept, *changes])
        remembered = {TALLY: state.tally + 1, SEEN: b"".join(marks), SEEN_UP_TO: up_to}
        change = total.change(_summed(changes.values()), remembered)
        self.table.write(self.table.update(total.key, change, condition=state.condition))
        return _State(True, state.tally + 1, frozenset(marks), up_to)

    def _keep_pages(self, total: Total, marks: Sequence[bytes], now: int) -> None:
        for span, start, some in _paged(marks):
            content = b"".join(some)
            # Named after all that is in it: an attempt that failed may have left a page that begins with the same mark.
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
                continue  # an earlier attempt has kept it


def _paged(marks: Sequence[bytes]) -> Iterator[tuple[int, int, list[bytes]]]:
    """Marks, in order, as pages: the seconds that each covers, when these begin, and its marks."""
    for _, of_day in groupby(marks, lambda mark: _at(mark) // DAY_SECONDS):
        some = list(of_day)
        first, last = _at(some[0]), _at(some[-1])
        span = next(span for span in SPANS if first // span == last // span)
        yield span, first, some


def _pages_from(prefix: tuple[str, str], start: Item | None) -> Asked:
    """The question for the marks in the pages whose keys begin so."""
    return {
        "index": None,
        "condition": Expression.of("#pk = :pk AND begins_with(#sk, :sk)", pk=prefix[0], sk=prefix[1]),
        "attributes": (SEEN,),
        "limit": PAGES,
        "consistent": True,
        "start": start,
    }


def _page_key(total: Total, span: int, time: int, digest: str) -> tuple[str, str]:
    key = SEEN_PAGE.key(videoId=total.video_id, total=total.name, span=span, start=time // span * span, digest=digest)
    return key[PARTITION_KEY], key[SORT_KEY]


def _at(mark: bytes) -> int:
    return int.from_bytes(mark[:AT_BYTES], "big")


def _summed(additions: Iterable[Sums]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for addition in additions:
        for name, value in addition.items():
            sums[name] = sums.get(name, 0) + value
    return {name: value for name, value in sums.items() if value}
