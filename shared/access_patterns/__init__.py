"""The access patterns: what is asked, the one way in which DynamoDB answers it, and what that costs.

No function runs this. `docs/data-model.md` shows it, and tests hold the stores and the costs to it. Each module has
the patterns of the package of `shared/` whose name it has; add a new one there.
"""

from shared.access_patterns.captions import CAPTIONS
from shared.access_patterns.feed import FEED
from shared.access_patterns.films import FILMS
from shared.access_patterns.history import HISTORY
from shared.access_patterns.pattern import AccessPattern
from shared.access_patterns.relations import PLAYLISTS, RELATIONS
from shared.access_patterns.search import SEARCH
from shared.access_patterns.upkeep import TALLIES, TOTALS, UPKEEP
from shared.access_patterns.videos import VIDEOS, VIEWS
from shared.access_patterns.webhooks import WEBHOOKS_PATTERNS

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
"""In the order in which the documents list them."""
