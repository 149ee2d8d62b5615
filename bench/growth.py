"""Cost of requests by catalogue size, and of lists by depth. `python -m bench.growth` draws docs/growth.svg.

The benchmark runs every request of the access patterns with catalogues of 1,000, 10,000 and 100,000 videos. It counts
DynamoDB units by the rules of `make cost`. The videos of a catalogue are not stored. Instead, a fake table generates
items from the number of a video, and finds index entries by bisection. moto serves all other items.
"""

import sys
import uuid
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from bench.cost.run import VIDEO_BODY, MeasuredService, clients, measure_alone, measured_service
from bench.tables import Chart
from local import ROOT
from local.access_patterns import ACCESS_PATTERNS
from local.testbed.harness import NOW
from local.testbed.meter import Meter
from local.testbed.units import index_entry
from local.testbed.wire import intercept
from shared.aws.listing import Window
from shared.core.attributes import AttributeMap, Item, encode_item
from shared.core.caller import Caller
from shared.core.position import Page, Position
from shared.relations.credits import RelationStore, credit_item, release_item
from shared.relations.models import CreditContent, ReleaseContent
from shared.schema import (
    CATEGORY_INDEX,
    CREDIT,
    FEED,
    INDEXES,
    PARTITION_KEY,
    RELATION_INDEX,
    RELEASE,
    SORT_KEY,
    TAG,
    USER_INDEX,
    VIDEO,
    person_relation,
    region_relation,
    shard_of,
    tag_relation,
)
from shared.videos.entries import NO_LANGUAGE, tag_entries
from shared.videos.lists import ListFilters, VideoLists
from shared.videos.store import VideoStore
from shared.videos.video import new_item, stamp

PICTURE = ROOT / "docs" / "growth.svg"
SIZES = (1_000, 10_000, 100_000)
"""Number of videos in each catalogue."""
PAGE, DEEP = 25, 1_000
"""Number of items per page, and number of the page that is compared with the first page."""
FIRST_YEAR, YEARS = 1990, 10
OWNER = Caller("alice", frozenset())

CREDIT_SK = CREDIT.key(videoId="", personId="p")[SORT_KEY]
RELEASE_SK = RELEASE.key(videoId="", region="NZ", language=NO_LANGUAGE)[SORT_KEY]
TAG_SK = TAG.key(videoId="", tag="t")[SORT_KEY]


class GrowthRow(NamedTuple):
    """An index entry: sort value, id, sort key of the item, and number of the video."""

    at: int
    id: str
    sk: str
    number: int


class RequestCost(NamedTuple):
    """Number of DynamoDB requests, and read and write units, of one API request."""

    requests: int
    reads: float
    writes: int = 0


def video_id(number: int) -> str:
    """Return the id of the video with this number."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def created_at(number: int) -> int:
    """Return the creation time of the video with this number, in epoch seconds. Video 0 is the newest."""
    return NOW - 60 * (number + 1)


@lru_cache(maxsize=2_000)
def items_of(number: int) -> Mapping[str, AttributeMap]:
    """Return four items of a listed video of Alice: video, tag entry, credit and release. The keys of the result are
    sort keys."""
    content: Item = {**VIDEO_BODY, "tags": ["t"], "visibility": "public", "releaseYear": FIRST_YEAR + number % YEARS}
    draft = new_item(content, video_id=video_id(number), owner="alice", created_at=created_at(number), status="ready")
    video = stamp(draft, caller=OWNER, now=NOW, version=1)
    role = CreditContent.model_validate({"ordering": 1, "roles": [{"category": "actor"}]})
    titles = ReleaseContent.model_validate({"titles": [{"title": "t"}]})
    related = [
        credit_item(video, "p", role, caller=OWNER, now=NOW),
        release_item(video, "NZ", None, titles, caller=OWNER, now=NOW),
    ]
    return {item[SORT_KEY]: encode_item(item) for item in (video, *tag_entries(video), *related)}


class GrownTable:
    """Fake DynamoDB table that generates the items of a large catalogue on demand, and forwards other requests to moto."""

    def __init__(self, videos: int) -> None:
        self._numbers: dict[str, int] = {}
        self._rows: dict[tuple[str, ...], list[GrowthRow]] = defaultdict(list)
        for number in range(videos):
            at, id_ = created_at(number), video_id(number)
            self._numbers[VIDEO.key(videoId=id_)[PARTITION_KEY]] = number
            video, shard = GrowthRow(at, id_, VIDEO.sk, number), str(shard_of(id_))
            self._rows[USER_INDEX.name, "alice"].append(video)
            self._rows[CATEGORY_INDEX.name, "c", shard].append(video)
            self._rows[RELATION_INDEX.name, FEED, shard].append(video)
            self._rows[RELATION_INDEX.name, tag_relation("t"), shard].append(video._replace(sk=TAG_SK))
            release = video._replace(id=f"{id_}#{NO_LANGUAGE}", sk=RELEASE_SK)
            self._rows[RELATION_INDEX.name, region_relation("NZ"), shard].append(release)
            credit = video._replace(at=FIRST_YEAR + number % YEARS, sk=CREDIT_SK)
            self._rows[RELATION_INDEX.name, person_relation("p"), "0"].append(credit)
        for rows in self._rows.values():
            rows.sort()

    def credited(self, index: int) -> Position:
        """Return the list position of an entry in the list of the videos of person `p`. The entry with `index` 0 has the
        latest release year."""
        row = self._rows[RELATION_INDEX.name, person_relation("p"), "0"][-1 - index]
        return Position(row.at, row.id)

    def between(self, operation: str, parameters: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        """Respond to requests for the catalogue's videos, and forward all other requests."""
        match operation:
            case "Query" if (rows := self._partition(parameters)) is not None:
                return self._query(parameters, rows)
            case "GetItem" if item := self._item(parameters["Key"]):
                return {"Item": _projected(item, parameters)}
            case "BatchGetItem":
                return self._batch(parameters, send)
            case _:
                return send()

    def _partition(self, parameters: Mapping[str, Any]) -> list[GrowthRow] | None:
        index = next((index for index in INDEXES if index.name == parameters.get("IndexName")), None)
        if index is None:
            return None
        values = parameters["ExpressionAttributeValues"]
        keys = (next(iter(values[f":{attribute.name}"].values())) for attribute in index.partition)
        return self._rows.get((index.name, *keys))

    def _query(self, parameters: Mapping[str, Any], rows: list[GrowthRow]) -> Any:
        index = next(index for index in INDEXES if index.name == parameters["IndexName"])
        values, limit = parameters["ExpressionAttributeValues"], parameters["Limit"]
        low = bisect_left(rows, (int(values[":start"]["N"]),))
        high = bisect_left(rows, (int(values[":last"]["N"]) + 1,))
        start = parameters.get("ExclusiveStartKey")
        if start:
            key = int(start[index.sort[0].name]["N"]), start[index.sort[1].name]["S"]
            if parameters["ScanIndexForward"]:
                low = bisect_right(rows, (*key, chr(sys.maxunicode)))
            else:
                high = bisect_left(rows, key)
        page = rows[low : low + limit] if parameters["ScanIndexForward"] else rows[max(low, high - limit) : high][::-1]
        entries = [index_entry(items_of(row.number)[row.sk], index) or {} for row in page]
        response: dict[str, Any] = {
            "Items": [_projected(entry, parameters) for entry in entries],
            "Count": len(page),
            "ScannedCount": len(page),
        }
        if high - low > limit:
            names = [attribute.name for attribute in (*index.partition, *index.sort)]
            response["LastEvaluatedKey"] = {name: entries[-1][name] for name in (PARTITION_KEY, SORT_KEY, *names)}
        return response

    def _batch(self, parameters: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        ((table, request),) = parameters["RequestItems"].items()
        own_items = [item for key in request["Keys"] if (item := self._item(key))]
        other_keys = [key for key in request["Keys"] if not self._item(key)]
        response = send(RequestItems={table: {**request, "Keys": other_keys}}) if other_keys else {"Responses": {}}
        found = [*(_projected(item, request) for item in own_items), *response["Responses"].get(table, [])]
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def _item(self, key: Any) -> AttributeMap | None:
        number = self._numbers.get(key[PARTITION_KEY]["S"])
        return None if number is None else items_of(number).get(key[SORT_KEY]["S"])


def _projected(item: AttributeMap, request: Mapping[str, Any]) -> AttributeMap:
    if "ProjectionExpression" not in request:
        return item
    names = {
        request["ExpressionAttributeNames"][placeholder] for placeholder in request["ProjectionExpression"].split(", ")
    }
    return {name: value for name, value in item.items() if name in names}


Lister = Callable[[VideoLists, RelationStore, Window], Page[Any]]
LISTS: Mapping[str, Lister] = {
    "a person": lambda _, relations, window: relations.videos_of("p", NOW, window),
    "a tag": lambda videos, _, window: videos.list_by_tag("t", NOW, ListFilters(), window),
    "a region": lambda videos, _, window: videos.list_by_region("NZ", NOW, ListFilters(), window),
    "one's own with a tag": lambda videos, _, window: videos.list_by_owner(
        "alice", OWNER, NOW, ListFilters(), window, "t"
    ),
    "status=ready": lambda videos, _, window: videos.list_by_status("ready", NOW, ListFilters(), window),
    "the feed": lambda videos, _, window: videos.list_public(NOW, ListFilters(), window),
    "a category": lambda videos, _, window: videos.list_by_category("c", NOW, ListFilters(), window),
    "an owner": lambda videos, _, window: videos.list_by_owner("alice", OWNER, NOW, ListFilters(), window),
}
"""Functions that read a page, by name of the list. Each of these lists grows with the catalogue.

The most expensive list is first, because the chart places labels in this order.
"""


@contextmanager
def grown(catalogue: GrownTable) -> Iterator[MeasuredService]:
    """Create empty tables in moto. Within the block, the tables also appear to contain the items of the catalogue."""
    with measured_service() as service:
        undo = [intercept(client, catalogue.between) for client in clients()]
        try:
            yield service
        finally:
            for restore in undo:
                restore()


def page_of(catalogue: GrownTable, name: str, number: int, items: int = PAGE) -> RequestCost:
    """Return the cost of a page of a list. The first page has number 1. Raises RuntimeError if the page is not full."""
    last = (number - 1) * items - 1
    position = Position(created_at(last), video_id(last))
    if name == "a person":
        position = catalogue.credited(last)
    window = Window(0, NOW, limit=items, after=position if number > 1 else None)
    with grown(catalogue) as service:
        lists, relations = VideoLists(VideoStore(service.table)), RelationStore(service.table)
        with Meter(*clients()).measure() as used:
            page = LISTS[name](lists, relations, window)
        if len(page.items) != items:
            raise RuntimeError(f"page {number} of {name} has {len(page.items)} items")
        return RequestCost(len(used.operations), used.units.reads)


def growth() -> dict[str, list[RequestCost]]:
    """Return the costs of each list: the first page in each catalogue, then page DEEP in the largest catalogue."""
    costs: dict[str, list[RequestCost]] = {name: [] for name in LISTS}
    for size in SIZES:
        catalogue = GrownTable(size)
        for name in LISTS:
            costs[name] += [page_of(catalogue, name, number) for number in ((1, DEEP) if size == SIZES[-1] else (1,))]
    return costs


def of_patterns(size: int) -> dict[str, RequestCost]:
    """Return the cost of each access pattern with a catalogue of `size` videos, by the pattern's request."""
    catalogue, spent = GrownTable(size), {}
    for pattern in ACCESS_PATTERNS:
        with grown(catalogue) as service:
            used = measure_alone(pattern.request, service, service.api())
        spent[pattern.request] = RequestCost(len(used.operations), used.units.reads, used.units.writes)
    return spent


def picture(costs: Mapping[str, list[RequestCost]]) -> str:
    """Return an SVG chart of the read units of a page, by catalogue size."""
    labels = {
        name: f"{name}: {row[-1].reads:g} in {row[-1].requests} request{'s' if row[-1].requests > 1 else ''}"
        for name, row in costs.items()
    }
    return Chart(
        f"Read units of a page of {PAGE}, by the size of the catalogue",
        [*(f"{size:,}" for size in SIZES), f"page {DEEP:,}"],
        "videos in the catalogue",
        5,
        [(labels[name], [spent.reads for spent in row]) for name, row in costs.items()],
    ).svg()


def main() -> None:
    """Measure, print the figures, and draw the chart."""
    costs = growth()
    for name, row in costs.items():
        print(f"{name:22} " + "   ".join(f"{spent.requests} requests, {spent.reads:g} RRU" for spent in row))
    sizes = {size: of_patterns(size) for size in SIZES}
    for pattern in ACCESS_PATTERNS:
        different = {size: spent[pattern.request] for size, spent in sizes.items()}
        if len(set(different.values())) > 1:
            print(f"{pattern.request}: {different}")
    flat = sum(len({spent[pattern.request] for spent in sizes.values()}) == 1 for pattern in ACCESS_PATTERNS)
    print(
        f"{flat} of {len(ACCESS_PATTERNS)} access patterns take the same beside {SIZES[0]:,} and {SIZES[-1]:,} videos"
    )
    PICTURE.write_text(picture(costs), encoding="utf-8")


if __name__ == "__main__":
    main()
