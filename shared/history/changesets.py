"""Change sets: the audit entries written by one request or by one run of an import."""

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
"""Maximum number of queries per page. More than one is needed if most of the entries are hidden from the caller."""
LARGEST_PAGE = 1_000_000
"""Maximum bytes of entries on a page, as JSON. The first entry is returned however large it is."""


class ChangeSets:
    """Change sets in the audit table. Owners see the entries of their videos and playlists, admins all entries."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def page(self, changeset_id: str, caller: Caller, now: int, *, limit: int, after: Position | None) -> Page[Item]:
        """Return a page of a change set's entries, grouped by partition, newest first within each.

        Costs one Query of the index, and one BatchGetItem per 100 entries. A page may be short if entries are large or
        mostly hidden. Its cursor then leads to further entries. Raises NotFound if the caller may see no entry.
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
        """Return a page of a set's index entries: the keys and owners, in the order of `page`.

        The query is eventually consistent because it reads an index. If the first MAX_QUERIES queries found nothing
        that the caller may see, it continues while `in_time` returns true.
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
        """Return complete entries in the order of their keys, without entries that have expired. Consistent."""
        return [entry for entry in self.table.get_all(list(keys), consistent=True) if entry]


def position_of(entry: Item) -> Position:
    """Return the position of an entry in its change set."""
    return Position(0, f"{entry[PARTITION_KEY]}#{entry[SORT_KEY]}")


def change_set_not_found() -> NotFound:
    """Return the error for a change set that does not exist, or of which the caller may see no entry."""
    return NotFound("The change set does not exist, or changed nothing of yours.")


def _key_at(changeset_id: str, position: Position) -> Item:
    kind, id_, sort_key = position.id.split("#", 2)  # the sort key may contain "#"; the kind and the id escape it
    return {CHANGESET: changeset_id, PARTITION_KEY: f"{kind}#{id_}", SORT_KEY: sort_key}
