"""What it takes to search: the function that builds the index, and what each function may do with that."""

import aws_cdk as cdk

from infra import attributes
from infra.data_stack import DataStack
from infra.followers import NewFunction
from infra.function import ServiceFunction
from infra.media_stack import CAPTIONS, INDEX, MediaStack
from infra.scheduled import run_every
from shared import schema
from shared.video_fields import VISIBILITY_ATTRIBUTES

INDEX_EVERY = cdk.Duration.minutes(1)
INDEXER_TIMEOUT = cdk.Duration.minutes(5)
"""For some thousands of videos and their captions, and for merging and uploading what that makes; what is left of more, the next
run does. One that takes longer than a minute has the index to itself meanwhile (shared/search/generations.py)."""
INDEXER_MB = 1769
"""One whole core: to index is all processor time."""
SEARCH_MB = 1769
"""One whole core: what a question takes is nearly all processor time."""
INDEX_STORAGE = cdk.Size.gibibytes(4)
"""For a copy of the index, while it is merged into another one: of 100,000 videos with captions."""


def add_indexer(stack: cdk.Stack, new: NewFunction, data: DataStack, media: MediaStack) -> None:
    """Add the function that builds the index to a stack."""
    indexer = new(
        "Indexer",
        to="search",
        memory_mb=INDEXER_MB,
        timeout=INDEXER_TIMEOUT,
        storage=INDEX_STORAGE,
        environment={"AUDIT_TABLE_NAME": data.audit_table.table_name, "MEDIA_BUCKET": media.media.bucket_name},
    )
    indexer.allow_items("GetItem", "UpdateItem", of=[schema.INDEX])
    indexer.allow_objects("DeleteObject", "GetObject", "PutObject", bucket=media.media, below=(INDEX,))
    allow_following_videos(indexer, data, media)
    indexer.allow_queries(schema.RELATION_INDEX)
    run_every(stack, INDEX_EVERY, "IndexSchedule", indexer, "take the search index to where the changes are")


def allow_searching(search: ServiceFunction, data: DataStack, media: MediaStack) -> None:
    """Copy the index, follow what has changed since, and read what lists show of a video."""
    search.allow_items("GetItem", of=[schema.INDEX])
    search.allow_objects("GetObject", bucket=media.media, below=(INDEX,))
    allow_following_videos(search, data, media)
    search.allow_items("BatchGetItem", of=[schema.VIDEO], attributes=attributes.FOUND)
    search.allow_items("GetItem", of=[schema.VIDEO], attributes=VISIBILITY_ATTRIBUTES)


def allow_following_videos(function: ServiceFunction, data: DataStack, media: MediaStack) -> None:
    """Read everybody's changes, and what a video is found by: the video, what lies beside it, and what is said in it."""
    function.allow_items("GetItem", "Query", of=[schema.CHANGES], table=data.audit_table)
    function.allow_items("Query", of=[schema.VIDEO])
    function.allow_objects("GetObject", bucket=media.media, below=(CAPTIONS,))
    function.allow_listing(media.media)
