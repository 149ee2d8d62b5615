"""Queries for a video's related items, such as its credits, in sort key order."""

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.attributes import Item, decode_item
from shared.core.position import Page, Position
from shared.schema import PARTITION_KEY, RELEASE, SORT_KEY, VIDEO


def children_of(
    table: Table,
    video_id: str,
    prefix: str,
    *,
    up_to: str | None = None,
    limit: int,
    after: Position | None = None,
    consistent: bool = False,
) -> Page[Item]:
    """Return a page of a video's related items, sorted by sort key. Costs one Query, which reads at most 1 MB.

    Without `up_to`, the sort keys begin with `prefix`. With `up_to`, they are from `prefix` to `up_to`, inclusive.
    """
    pk = VIDEO.key(videoId=video_id)[PARTITION_KEY]
    if up_to is None:
        condition = Expression.of("#pk = :pk AND begins_with(#sk, :prefix)", pk=pk, prefix=prefix)
    else:
        condition = Expression.of("#pk = :pk AND #sk BETWEEN :first AND :last", pk=pk, first=prefix, last=up_to)
    page = table.query(
        index=None,
        condition=condition,
        limit=limit + 1,  # one extra item shows whether there is a next page
        start={PARTITION_KEY: pk, SORT_KEY: after.id} if after else None,
        consistent=consistent,
    )
    items = page.items[:limit]
    if len(page.items) > limit:
        return Page(items, Position(0, items[-1][SORT_KEY]))
    stopped = decode_item(page.last_key)[SORT_KEY] if page.last_key else None
    return Page(items, Position(0, stopped) if stopped else None)


def region_prefix(region: str) -> str:
    """Return the prefix of the sort keys of a video's releases in a region."""
    return f"{RELEASE.sort_prefix}{region}#"
