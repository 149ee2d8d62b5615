"""Change sets. A change set has the audit entries of all changes by one request, or by one run of an import."""

from collections.abc import Callable, Iterable
from itertools import count

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.records import key_of
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.core.changes import json_of
from shared.core.deadline import has_time
from shared.core.errors import NotFound
from shared.core.position import Page, Position
from shared.history.entries import document
from shared.schema import CHANGESET, CHANGESET_INDEX, PARTITION_KEY, SORT_KEY

LARGEST_QUERY = 1000
"""Maximum number of index entries that one Query examines: about 250 KB."""
MAX_QUERIES = 5
"""Maximum number of queries for a page. One is enough unless most of the entries are hidden from the caller.
`list_keys` may send more queries while its `in_time` returns true."""
LARGEST_PAGE = 1_000_000
"""Maximum bytes of the entries on a page, as JSON. The limit never excludes the first entry of a page."""


class ChangeSets:
    """Reader of change sets in the audit table.

    Owners see the entries of their videos and playlists. Admins see all entries.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def page(self, changeset_id: str, caller: Caller, now: int, *, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a change set's audit entries that the caller may see, grouped by video or playlist.

        Within a group, the entries are newest first. If entries are large or mostly hidden, a page may have fewer than
        `limit` entries although more pages follow. Costs one Query of the index, or up to MAX_QUERIES if entries are
        hidden, and one BatchGetItem per 100 entries. Raises NotFound if the change set has no entry that the caller may
        see.
        """
        index_page = self.list_keys(changeset_id, caller, now, limit=limit, after=after)
        if not index_page.items and index_page.resume is None and after is None:
            raise change_set_not_found()
        entries_of_page: list[Item] = []
        size = 0
        for entry in self.entries(map(key_of, index_page.items)):
            size += len(json_of(document(entry)))
            if entries_of_page and size > LARGEST_PAGE:
                return Page(entries_of_page, position_of(entries_of_page[-1]))
            entries_of_page.append(entry)
        return Page(entries_of_page, index_page.resume)

    def list_keys(
        self,
        changeset_id: str,
        caller: Caller,
        now: int,
        *,
        limit: int,
        after: Position | None,
        in_time: Callable[[], bool] = lambda: False,
    ) -> Page[Item]:
        """Return a page of a change set's index entries, with the keys and owners of its audit entries.

        The order is the same as in `page`. The read is eventually consistent, because it uses an index. If the first
        MAX_QUERIES queries find no entry that the caller may see, more queries follow while `in_time` returns true.
        """
        keep = Expression.of("#purgeAt > :now", now=now)
        if not caller.is_admin:
            keep &= Expression.of("#owner = :owner", owner=caller.subject)
        items: list[Item] = []
        for number in count(1):
            page = self.table.query(
                index=CHANGESET_INDEX.name,
                condition=Expression.of(f"#{CHANGESET} = :{CHANGESET}", **{CHANGESET: changeset_id}),
                keep=keep,
                ascending=False,
                # One item more than the limit shows whether there is a next page.
                limit=limit + 1 if caller.is_admin else LARGEST_QUERY,
                start=_key_at(changeset_id, after) if after else None,
            )
            items += page.items
            if len(items) > limit:
                return Page(items[:limit], position_of(items[limit - 1]))
            if page.last_key is None:
                return Page(items, None)
            after = position_of(decode_item(page.last_key))
            if not has_time() or (number >= MAX_QUERIES and (items or not in_time())):
                break
        return Page(items, after)

    def entries(self, keys: Iterable[Key]) -> list[Item]:
        """Return the audit entries with these keys, in the order of the keys. Omits entries that have expired.

        Uses consistent reads.
        """
        return [entry for entry in self.table.get_all(list(keys), consistent=True) if entry]


def position_of(entry: Item) -> Position:
    """Return the position of an audit entry in the list of its change set."""
    return Position(0, f"{entry[PARTITION_KEY]}#{entry[SORT_KEY]}")


def change_set_not_found() -> NotFound:
    """Return the error for a change set that does not exist, or has no entry that the caller may see."""
    return NotFound("The change set does not exist, or changed nothing of yours.")


def _key_at(changeset_id: str, position: Position) -> Item:
    kind, id_, sort_key = position.id.split("#", 2)  # only the sort key may contain "#"
    return {CHANGESET: changeset_id, PARTITION_KEY: f"{kind}#{id_}", SORT_KEY: sort_key}
