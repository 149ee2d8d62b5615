"""Change sets: what one request, or one run of an import, wrote."""

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
"""Index entries that one Query examines: about 250 KB."""
MOST_QUERIES = 5
"""How many queries a page takes at most, when most of what they find is hidden."""
LARGEST_PAGE = 1_000_000
"""Bytes of entries on a page, as JSON; the first is on it however large it is."""


class ChangeSets:
    """The change sets in the table of audit entries, as far as a caller may see them: an owner its own part, admins all."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def page(self, changeset_id: str, caller: Caller, now: int, *, limit: int, after: Position | None) -> Page[Item]:
        """A page of a set's entries, what is in one partition together, and there the newest first.

        One Query of the index, and one BatchGetItem for 100 entries. A page ends short when its entries are large, or when
        most of the set is hidden, and then leads on. Raises NotFound when there is nothing that the caller may see.
        """
        places = self.places(changeset_id, caller, now, limit=limit, after=after)
        if not places.items and places.resume is None and after is None:
            raise no_such_set()
        kept: list[Item] = []
        size = 0
        for entry in self.entries(map(key_of, places.items)):
            size += len(json_of(document(entry)))
            if kept and size > LARGEST_PAGE:
                return Page(kept, position_of(kept[-1]))
            kept.append(entry)
        return Page(kept, places.resume)

    def places(
        self,
        changeset_id: str,
        caller: Caller,
        now: int,
        *,
        limit: int,
        after: Position | None,
        in_time: Callable[[], bool] = lambda: False,
    ) -> Page[Item]:
        """A page of where a set's entries are, in the order of `page`: their keys and owners, as the index has them.

        While nothing is found that the caller may see, it looks on for as long as `in_time` says.
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
                # One more than is wanted shows whether there is a next page.
                limit=limit + 1 if caller.is_admin else LARGEST_QUERY,
                start=_key_at(changeset_id, after) if after else None,
            )
            items += page.items
            if len(items) > limit:
                return Page(items[:limit], position_of(items[limit - 1]))
            if page.last_key is None:
                return Page(items, None)
            after = position_of(decode_item(page.last_key))
            if not has_time() or (number >= MOST_QUERIES and (items or not in_time())):
                break
        return Page(items, after)

    def entries(self, keys: Iterable[Key]) -> list[Item]:
        """Whole entries in the order of their keys, without those that DynamoDB has removed meanwhile."""
        return [entry for entry in self.table.get_all(list(keys), consistent=True) if entry]


def position_of(entry: Item) -> Position:
    """Where an entry stands in its set."""
    return Position(0, f"{entry[PARTITION_KEY]}#{entry[SORT_KEY]}")


def no_such_set() -> NotFound:
    """What to answer when there is no such change set, or nothing in it that the caller may see."""
    return NotFound("There is no such change set, or nothing of it is yours.")


def _key_at(changeset_id: str, position: Position) -> Item:
    kind, id_, sort_key = position.id.split("#", 2)  # a key escapes what is not its own
    return {CHANGESET: changeset_id, PARTITION_KEY: f"{kind}#{id_}", SORT_KEY: sort_key}
