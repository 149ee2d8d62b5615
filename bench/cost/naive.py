"""The design that one would begin with, by the same rules and from the same items.

- Each view raises a number in the video's own document, which is in every index as a whole.
- Each question has an index of its own, which holds whole documents, and every write pays for all of them.
- Lists that no index was made for scan the table and drop what does not fit.
- The fifth page is found by an offset: pages one to four are read again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bench.cost.bill import Prices, Workload, units_cost
from bench.cost.run import CREATE, DESCRIBE, VIDEO_BODY, VIEW_LATER, CatalogueSize, MeasuredRequest
from local.testbed.units import READ_BYTES, CapacityUnits, index_entry, size, written
from shared.schema import USER_INDEX

PAGE = 25
"""Videos of a page, when nobody asks for another number."""
LISTS = "GET /v1/videos?"


@dataclass(frozen=True)
class DesignComparison:
    """One decision: what a request takes here, and what it would take without it."""

    decision: str
    request: str
    ours: CapacityUnits
    naive: CapacityUnits
    times: float
    """How often it happens in the month."""

    def factor(self, prices: Prices) -> float:
        """How many times dearer the naive way is."""
        return units_cost(self.naive, prices) / units_cost(self.ours, prices)


def comparisons(
    measured: Mapping[str, MeasuredRequest], catalogue: CatalogueSize, workload: Workload
) -> tuple[DesignComparison, ...]:
    """Each decision by itself. What is here is what the month is charged; the naive way differs by that decision alone."""
    told, calls = workload.figures, workload.calls
    bytes_ = size(catalogue.video)
    document = written(bytes_)
    everywhere = document * int(told["naive_indexes"])
    shown = PAGE * size(index_entry(catalogue.video, USER_INDEX))
    pages = told["naive_page"]
    lists, page = _mean_list(measured, calls)
    create = measured[CREATE].units
    # The entries of its tags stay: the places of each in the index are not copies of the document.
    of_tags = len(VIDEO_BODY["tags"])
    return (
        DesignComparison(
            "The count is an item of its own",
            "count a view",
            measured[VIEW_LATER].units,
            measured[VIEW_LATER].units + CapacityUnits(table_writes=document - 1, index_writes=everywhere),
            calls.get(VIEW_LATER, 0),
        ),
        DesignComparison(
            "One index for many questions, of what lists show",
            "create a video",
            create,
            CapacityUnits(create.reads, create.table_writes, of_tags + everywhere),
            calls.get(CREATE, 0),
        ),
        DesignComparison(
            "No index holds what changes most",
            "change a description",
            measured[DESCRIBE].units,
            measured[DESCRIBE].units + CapacityUnits(index_writes=everywhere),
            calls.get(DESCRIBE, 0),
        ),
        DesignComparison(
            "Lists ask an index, and nothing scans",
            "list a page",
            page,
            CapacityUnits(reads=math.ceil(told["videos"] * bytes_ / READ_BYTES) * 0.5),
            lists,
        ),
        DesignComparison(
            "A cursor goes on where the page ended",
            f"list page {pages:.0f}",
            page,
            page + CapacityUnits(reads=(math.ceil(pages * shown / READ_BYTES) - math.ceil(shown / READ_BYTES)) * 0.5),
            lists,
        ),
    )


def _mean_list(measured: Mapping[str, MeasuredRequest], calls: Mapping[str, float]) -> tuple[float, CapacityUnits]:
    """How many pages of videos are listed, and what one takes: the mean of them all; of each list once, if none are."""
    times = {request: number for request, number in calls.items() if request.startswith(LISTS)}
    number = sum(times.values())
    weights = times if number else dict.fromkeys(times, 1)
    reads = sum(weight * measured[request].units.reads for request, weight in weights.items())
    return number, CapacityUnits(reads=reads / max(1, sum(weights.values())))
