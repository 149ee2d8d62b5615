"""Costs of a naive design, computed by the same rules and from the same items as the service's costs.

The naive design has these properties:

- Each view increments a number in the video's document, and every index contains the whole document.
- Each query has its own index, which contains whole documents. So every write also writes to all indexes.
- Lists without an index scan the table and filter the results.
- A list finds its fifth page by an offset, so it reads pages one to four again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bench.cost.bill import Prices, Workload, units_cost
from bench.cost.run import CREATE, DESCRIBE, VIDEO_BODY, VIEW_LATER, CatalogueSize, MeasuredRequest
from local.testbed.units import READ_BYTES, CapacityUnits, index_entry, size, written
from shared.schema import USER_INDEX

PAGE = 25
"""Default number of videos on a page."""
LISTS = "GET /v1/videos?"


@dataclass(frozen=True)
class DesignComparison:
    """Units of a request in the service's design, and in a naive design that differs by one decision."""

    decision: str
    request: str
    ours: CapacityUnits
    naive: CapacityUnits
    times: float
    """Number of these requests in a month."""

    def factor(self, prices: Prices) -> float:
        """Return the cost of the naive design divided by the cost of the service's design."""
        return units_cost(self.naive, prices) / units_cost(self.ours, prices)


def comparisons(
    measured: Mapping[str, MeasuredRequest], catalogue: CatalogueSize, workload: Workload
) -> tuple[DesignComparison, ...]:
    """Return one comparison for each design decision.

    `ours` of a comparison has the units of the month's bill. `naive` has the units of a design without the decision.
    """
    figures, calls = workload.figures, workload.calls
    bytes_ = size(catalogue.video)
    document = written(bytes_)
    everywhere = document * int(figures["naive_indexes"])
    shown = PAGE * size(index_entry(catalogue.video, USER_INDEX))
    pages = figures["naive_page"]
    lists, page = _mean_list(measured, calls)
    create = measured[CREATE].units
    # The naive design has the same tag entries, because they are not copies of the document.
    of_tags = len(VIDEO_BODY["tags"])
    return (
        DesignComparison(
            "The view count is a separate item",
            "count a view",
            measured[VIEW_LATER].units,
            measured[VIEW_LATER].units + CapacityUnits(table_writes=document - 1, index_writes=everywhere),
            calls.get(VIEW_LATER, 0),
        ),
        DesignComparison(
            "One index for many queries, with only the attributes that lists show",
            "create a video",
            create,
            CapacityUnits(create.reads, create.table_writes, of_tags + everywhere),
            calls.get(CREATE, 0),
        ),
        DesignComparison(
            "No index contains the attributes that change most",
            "change a description",
            measured[DESCRIBE].units,
            measured[DESCRIBE].units + CapacityUnits(index_writes=everywhere),
            calls.get(DESCRIBE, 0),
        ),
        DesignComparison(
            "Lists query an index instead of scanning the table",
            "list a page",
            page,
            CapacityUnits(reads=math.ceil(figures["videos"] * bytes_ / READ_BYTES) * 0.5),
            lists,
        ),
        DesignComparison(
            "A cursor resumes after the previous page",
            f"list page {pages:.0f}",
            page,
            page + CapacityUnits(reads=(math.ceil(pages * shown / READ_BYTES) - math.ceil(shown / READ_BYTES)) * 0.5),
            lists,
        ),
    )


def _mean_list(measured: Mapping[str, MeasuredRequest], calls: Mapping[str, float]) -> tuple[float, CapacityUnits]:
    """Return the number of requests for list pages in a month, and the mean units of one page.

    If the month has no such requests, the mean is over one page of each list.
    """
    times = {request: number for request, number in calls.items() if request.startswith(LISTS)}
    number = sum(times.values())
    weights = times if number else dict.fromkeys(times, 1)
    reads = sum(weight * measured[request].units.reads for request, weight in weights.items())
    return number, CapacityUnits(reads=reads / max(1, sum(weights.values())))
