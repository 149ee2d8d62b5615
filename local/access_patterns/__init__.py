"""Access patterns of the tables: the client's query, the DynamoDB operations that serve it, and their cost.

`docs/data-model.md` lists the access patterns. Tests compare them with the requests of the stores, and with the costs
of these requests. Each module lists the access patterns of one package of `shared/`, which has the same name as the
module.
"""

from local.access_patterns.background import TALLIES, TOTALS, UPKEEP
from local.access_patterns.captions import CAPTIONS
from local.access_patterns.feed import FEED
from local.access_patterns.history import HISTORY
from local.access_patterns.pattern import AccessPattern
from local.access_patterns.processing import FILMS
from local.access_patterns.relations import PLAYLISTS, RELATIONS
from local.access_patterns.search import SEARCH
from local.access_patterns.videos import VIDEOS, VIEWS
from local.access_patterns.webhooks import WEBHOOKS_PATTERNS

__all__ = ["ACCESS_PATTERNS", "AccessPattern"]

ACCESS_PATTERNS = (
    *VIDEOS,
    *RELATIONS,
    *CAPTIONS,
    *TOTALS,
    *PLAYLISTS,
    *VIEWS,
    *TALLIES,
    *FILMS,
    *HISTORY,
    *FEED,
    *WEBHOOKS_PATTERNS,
    *SEARCH,
    *UPKEEP,
)
"""All access patterns, in the order of `docs/data-model.md`."""
