"""The audit trail, followed by the audit function over a table's own stream."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

from functions.audit import handler as audit
from local.testbed.backstage import Backstage, FakeQueue, NoFeed
from local.testbed.harness import Context
from local.testbed.streams import Raw, event
from shared.aws.dynamodb import Asked, QueryPage, Table, Write
from shared.aws.failures import ConditionFailed
from shared.core.attributes import AttributeMap, Item, decode_item, encode_item
from shared.history.trail import Archive, AuditStore
from shared.schema import AUDIT_TABLE_NAME, PARTITION_KEY, SORT_KEY

DAYS = 400


class NoArchive(Archive):
    """Keeps nothing."""

    def __init__(self) -> None:
        pass

    def write(self, entries: Sequence[Item]) -> None:
        """Forget them."""


class Trail:
    """The entries of all changes that the audit function was shown."""

    def __init__(self, backstage: Backstage, entries: Table | None = None) -> None:
        self.backstage = backstage
        table = backstage.table
        self.table = entries or Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None)
        self.store = AuditStore(self.table)
        self._function = audit.make(self.store, NoArchive(), DAYS, NoFeed(), FakeQueue())
        self._shown = 0

    def follow(self) -> None:
        """Show the audit function what has changed since the last time."""
        self.backstage.settle()
        self.show(self.backstage.seen[self._shown :])
        self._shown = len(self.backstage.seen)

    def show(self, records: Sequence[Raw]) -> None:
        """Show the audit function these records of the stream."""
        if records:
            assert self._function(event(*records), Context()) == {"batchItemFailures": []}

    def forget(self, *entries: Item) -> None:
        """Take entries out of the trail, as DynamoDB does when they are old."""
        self.table.batch_delete([{name: entry[name] for name in (PARTITION_KEY, SORT_KEY)} for entry in entries])

    def replace(self, entry: Item) -> None:
        """Have another entry in the place of one."""
        self.table.write(self.table.put(entry))

    def entries(self, video_id: str) -> list[Item]:
        """All entries of a video, the newest first."""
        return list(self.store.back(video_id, 0))


class InMemory(Table):
    """A table of entries without DynamoDB: moto takes 40 ms to read a hundred of them back."""

    def __init__(self) -> None:
        super().__init__(AUDIT_TABLE_NAME, None)
        self.items: defaultdict[str, dict[str, AttributeMap]] = defaultdict(dict)
        """By partition and sort key."""

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """A put, if absent."""
        assert write.parameters["ConditionExpression"] == "attribute_not_exists(#pk)"
        item = write.parameters["Item"]
        kept, key = self.items[item[PARTITION_KEY]["S"]], item[SORT_KEY]["S"]
        if key in kept:
            raise ConditionFailed(None)
        kept[key] = item
        return {}

    def begin_write(self, write: Write) -> Callable[[], None]:
        """A put, when its answer is waited for."""

        def done() -> None:
            self.write(write)

        return done

    def query(self, **asked: Unpack[Asked]) -> QueryPage:
        """One page, newest first, of what stands in one partition and passes a filter of equations and lower bounds."""
        assert (asked["condition"].text, asked.get("ascending")) == ("#pk = :pk", False)
        home, start, keep = asked["condition"].values[":pk"], asked.get("start"), asked.get("keep")
        left = sorted((key for key in self.items[home] if start is None or key < start[SORT_KEY]), reverse=True)
        examined = left[: asked["limit"]]
        items = [decode_item(self.items[home][key]) for key in examined]
        wanted = [item for item in items if keep is None or all(_holds(item, keep.text, keep.values))]
        is_last = len(examined) == len(left)
        last_key = None if is_last else encode_item({PARTITION_KEY: home, SORT_KEY: examined[-1]})
        return QueryPage(wanted, len(examined), last_key)


def _holds(item: Item, text: str, values: Item) -> Iterator[bool]:
    for part in text.split(" AND "):
        matched = re.fullmatch(r"\(?#(\w+) (=|>) (:\w+)\)?", part)
        assert matched, part
        name, relation, value = matched[1], matched[2], values[matched[3]]
        yield name in item and (item[name] == value if relation == "=" else bool(item[name] > value))
