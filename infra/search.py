"""Search infrastructure: the function that builds the index, and permissions to use the index."""

import aws_cdk as cdk

from infra import attributes
from infra.data_stack import DataStack
from infra.function import MEMORY_MB, ServiceFunction
from infra.media_stack import CAPTIONS, INDEX, MediaStack
from infra.opensearch import SearchCluster, prefix_of
from infra.scheduled import run_every
from infra.settings import DeploymentSettings
from infra.subscriptions import NewFunction
from shared import schema
from shared.video_fields import VISIBILITY_ATTRIBUTES

INDEX_EVERY = cdk.Duration.minutes(1)
INDEXER_TIMEOUT = cdk.Duration.minutes(5)
"""Timeout of the indexer. It covers indexing some thousands of videos with captions, merging, and uploading the index.

The next run continues with the remaining videos. A run may take longer than INDEX_EVERY. Runs that start in the
meantime do nothing, because only one run at a time may write the index (shared/search/generations.py).
"""
INDEXER_MB = 1769
"""Memory of the indexer in megabytes, if the deployment has no OpenSearch cluster. This size corresponds to one core,
because indexing is CPU-bound.

With an OpenSearch cluster, the indexer has MEMORY_MB, because it runs almost all the time and mostly waits for changes.
"""
SEARCH_MB = 1769
"""Memory of the search function in megabytes. This size corresponds to one core, because queries are CPU-bound."""
INDEX_STORAGE = cdk.Size.gibibytes(4)
"""Size of `/tmp`. It suffices for an index of INDEX_LIMIT, and for a merge of this index."""
INDEX_LIMIT = int(INDEX_STORAGE.to_mebibytes()) * 2**20 // 2
"""Maximum size of the index in bytes. A merge of segments needs as much space again."""


def captions_environment(settings: DeploymentSettings) -> dict[str, str]:
    """Return the environment variables that select the captions in the index, for both functions that index videos."""
    return {"CAPTION_DAYS": str(settings.caption_days), "CAPTION_CUES": str(settings.caption_cues)}


def add_indexer(
    stack: cdk.Stack,
    new: NewFunction,
    settings: DeploymentSettings,
    data: DataStack,
    media: MediaStack,
    cluster: SearchCluster | None,
) -> None:
    """Add the indexer to a stack: a scheduled function that builds the search index.

    Without an OpenSearch cluster, the function builds the embedded index on its disk, and stores it in the media
    bucket.
    """
    indexer = new(
        "Indexer",
        to="search",
        memory_mb=MEMORY_MB if cluster else INDEXER_MB,
        timeout=INDEXER_TIMEOUT,
        storage=None if cluster else INDEX_STORAGE,
        environment={
            "AUDIT_TABLE_NAME": data.audit_table.table_name,
            "MEDIA_BUCKET": media.media.bucket_name,
            "INDEX_LIMIT_BYTES": str(INDEX_LIMIT),
            **captions_environment(settings),
            **({**cluster.environment(), "OPENSEARCH_PREFIX": prefix_of(settings)} if cluster else {}),
        },
    )
    indexer.allow_items("GetItem", "UpdateItem", of=[schema.INDEX])
    if cluster:
        cluster.allow_indexing(indexer, settings)
    else:
        indexer.allow_objects("DeleteObject", "GetObject", "PutObject", bucket=media.media, below=(INDEX,))
    allow_following_videos(indexer, data, media)
    indexer.allow_queries(schema.RELATION_INDEX)
    run_every(stack, INDEX_EVERY, "IndexSchedule", indexer, "add new changes to the search index")


def allow_searching(
    search: ServiceFunction,
    settings: DeploymentSettings,
    data: DataStack,
    media: MediaStack,
    cluster: SearchCluster | None,
) -> None:
    """Allow the search function to query the index, and to read the feed and video summaries.

    Without an OpenSearch cluster, the function copies the embedded index, and adds later changes to its copy.
    """
    search.allow_items("GetItem", of=[schema.INDEX])
    if cluster:
        cluster.allow_searching(search, settings)
        allow_reading_feed(search, data)
    else:
        search.allow_objects("GetObject", bucket=media.media, below=(INDEX,))
        allow_following_videos(search, data, media)
    search.allow_items("BatchGetItem", of=[schema.VIDEO], attributes=attributes.FOUND)
    search.allow_items("GetItem", of=[schema.VIDEO], attributes=VISIBILITY_ATTRIBUTES)


def allow_following_videos(function: ServiceFunction, data: DataStack, media: MediaStack) -> None:
    """Allow reading the feed of all changes, and the content that the index includes: videos, items in their
    partitions, and caption texts.
    """
    allow_reading_feed(function, data)
    function.allow_items("Query", of=[schema.VIDEO])
    function.allow_objects("GetObject", bucket=media.media, below=(CAPTIONS,))
    function.allow_listing(media.media)


def allow_reading_feed(function: ServiceFunction, data: DataStack) -> None:
    """Allow reading the feed of all changes."""
    function.allow_items("GetItem", "Query", of=[schema.CHANGES], table=data.audit_table)
