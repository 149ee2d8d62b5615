"""Scheduled function that updates the search index from the feed of changes, every minute.

The function `search` downloads the new index or, if the index is in an OpenSearch cluster, queries the cluster.
"""

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from shared.aws.leases import LeaseLost
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.core.deadline import limit_time
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger
from shared.feed.log import Feed
from shared.search.builder import IndexBuilder, IndexStore
from shared.search.document import IndexLimits
from shared.search.generations import FOLDERS, EmbeddedStore, Generations, LocalCopy, PointerStore
from shared.search.loader import DocumentLoader
from shared.temporary import own_folder

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 120
"""Seconds of remaining run time below which the function stops reading the feed. Afterwards it merges and uploads the
index, which may take this long."""
FOLLOW_SECONDS = 55
"""Seconds for which a run continues to consume the feed if the index is in an OpenSearch cluster. The next scheduled
run begins within seconds after that time."""


class IndexerSettings(Settings):
    audit_table_name: str
    media_bucket: str
    index_limit_bytes: int
    """Maximum size of the index, in bytes."""
    caption_days: int
    """Number of days after a video's creation during which its captions are in the index. 0 sets no limit."""
    caption_cues: int
    """Maximum number of a video's cues in the index."""
    search_engine: str = "embedded"
    """`embedded`, or `opensearch` for the cluster at `opensearch_url`."""
    opensearch_url: str = ""
    opensearch_service: str = "es"
    """Name of the AWS service in request signatures: `es` for a managed domain, `aoss` for a serverless collection."""
    opensearch_prefix: str = "videos"
    """Prefix of the names of this deployment's indexes."""


def make_store(settings: IndexerSettings, resources: Resources, limits: IndexLimits) -> IndexStore:
    """Return the store of the deployment's search engine."""
    table = resources.table(settings.table_name)
    if settings.search_engine == "opensearch":
        from shared.search.opensearch_index import OpenSearchStore

        # The size of a cluster has no fixed limit.
        pointers = PointerStore(table, resources.clock, limits._replace(bytes=0), "opensearch")
        return OpenSearchStore.connect(
            pointers, settings.opensearch_url, settings.opensearch_service, settings.opensearch_prefix
        )
    generations = Generations(table, resources.objects, settings.media_bucket, resources.clock, limits)
    return EmbeddedStore(generations, LocalCopy(own_folder(FOLDERS)))


def make(settings: IndexerSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, objects, bucket = resources.table(settings.table_name), resources.objects, settings.media_bucket
    limits = IndexLimits(settings.index_limit_bytes, settings.caption_days, settings.caption_cues)
    feed = Feed(resources.table(settings.audit_table_name), resources.clock)
    loader = DocumentLoader(table, objects, bucket, limits, resources.clock)
    builder = IndexBuilder(make_store(settings, resources, limits), table, feed, loader, clock=resources.clock)

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        end = time.monotonic() + FOLLOW_SECONDS
        try:
            # Requests to a cluster are retried, and each can take a minute. Without a limit, retries could exceed the run time.
            seconds = context.get_remaining_time_in_millis() / 1000
            with limit_time(seconds, time.monotonic) if settings.search_engine == "opensearch" else nullcontext():
                run = builder.run(in_time, may_follow=lambda: time.monotonic() < end and in_time())
        except LeaseLost:
            service_logger().warning("lease lost to another builder or a rebuild request")
            return {}
        if run.outcome != "busy":
            emit({"IndexLag": run.behind, "IndexBytes": run.index.bytes, "IndexGrowth": run.index.growth or 0})
        if run.outcome != "unchanged":
            service_logger().info(
                "index built", extra={"outcome": run.outcome, "videos": run.put, "objects_removed": run.removed}
            )
        return {}

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(IndexerSettings, make, resources=BackgroundResources)
