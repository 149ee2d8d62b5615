"""The audit trail, followed by the audit function over a table's own stream."""

from collections.abc import Sequence

from functions.audit import handler as audit
from local.testbed.backstage import Backstage, FakeQueue, NoFeed
from local.testbed.harness import Context
from local.testbed.streams import Raw, event
from shared.aws.dynamodb import Table
from shared.aws.records import key_of
from shared.core.attributes import Item
from shared.history.trail import Archive, AuditStore
from shared.schema import AUDIT_TABLE_NAME

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
        self.table.batch_delete(list(map(key_of, entries)))

    def replace(self, entry: Item) -> None:
        """Have another entry in the place of one."""
        self.table.write(self.table.put(entry))

    def entries(self, video_id: str) -> list[Item]:
        """All entries of a video, the newest first."""
        return list(self.store.back(video_id, 0))
