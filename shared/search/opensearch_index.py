"""Indexes of an OpenSearch cluster: the builder opens and publishes them, and search functions query the published one.

Each rebuild creates an index, such as `videos-prod-00000002-1f0a9c3e`. Names contain the environment, because several
deployments may share a cluster. The pointer item in the table has the name of the published index, and the lease of the
builder. It also has the position up to which the index includes all changes.

All search functions query the index that the pointer names. An alias would only repeat the pointer, and a domain cannot
limit a role to certain aliases. The search functions do not consume the feed: only the indexer does.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from opensearchpy import OpenSearch

from shared.core.attributes import Item
from shared.core.errors import Unavailable
from shared.feed.log import Feed, LogCursor, shard_logs
from shared.feed.reader import end_cursors
from shared.queries import INDEX_WAIT
from shared.search.engine import IncompatibleIndex, IndexCheckpoint, index_unavailable
from shared.search.generations import GenerationPointer, PointerStore, next_generation
from shared.search.local_index import LOOK_EVERY, CurrentIndex
from shared.search.opensearch_engine import (
    SERVERLESS,
    WRITE_SECONDS,
    OpenSearchEngine,
    create_index,
    make_client,
    mapped_errors,
    write_alias,
)

PREFIX = "videos"
"""Default prefix of the names of all indexes of a deployment."""
COMPLETE_SECONDS = 10
"""Maximum lag of the index, in seconds, at which results count as complete. At a larger lag, a search function compares
the index with the end of the feed. The indexer reads the feed about once a second."""
PAUSE = 0.2
"""Seconds between two reads of the pointer while a request waits for changes."""


class OpenSearchStore:
    """Store of a cluster's indexes, for the builder.

    engine = store.open(held, held.readable)
    engine.put(documents)
    engine.commit(checkpoint)
    held = store.publish(held, checkpoint)
    """

    follows = True
    slice_size = 1000
    _engine: OpenSearchEngine

    def __init__(
        self, pointers: PointerStore, client: OpenSearch, prefix: str = PREFIX, *, is_serverless: bool = False
    ) -> None:
        """Create the store without a request to the cluster. `prefix` is the prefix of the names of all indexes of this
        deployment."""
        self.pointers, self._client, self._prefix, self._is_serverless = pointers, client, prefix, is_serverless
        self._replaces = False

    @classmethod
    def connect(cls, pointers: PointerStore, url: str, service: str, prefix: str) -> "OpenSearchStore":
        """Return the store of the cluster at `url`. `service` is the name of the AWS service in signatures: `es` or
        `aoss`."""
        client = make_client(url, service, seconds=WRITE_SECONDS)
        return cls(pointers, client, prefix, is_serverless=service == SERVERLESS)

    def open(self, held: GenerationPointer, generation: str | None) -> OpenSearchEngine:
        """Open the index named `generation`. If `generation` is `None`, create an index. Raises IncompatibleIndex if
        the cluster does not have the named index."""
        checkpoint = None
        if generation is None:
            generation = f"{self._prefix}-{next_generation(held)}"
            create_index(self._client, generation, is_serverless=self._is_serverless)
        elif write_alias(generation) not in self._indexes().get(generation, ()):
            raise IncompatibleIndex(f"The cluster has no index {generation} that this service created.")
        elif held.draft and generation == held.draft.generation:
            checkpoint = IndexCheckpoint(held.draft.places, 0)
        else:
            checkpoint = IndexCheckpoint(held.places, held.as_of)
        self._engine = OpenSearchEngine(self._client, generation, checkpoint, is_serverless=self._is_serverless)
        return self._engine

    def publish(self, held: GenerationPointer, checkpoint: IndexCheckpoint) -> GenerationPointer:
        """Store the checkpoint, and the name of the open index, in the pointer item."""
        index = self._engine.index
        self._replaces = index != held.generation
        return self.pointers.point_to(held, index, checkpoint, video_count=self._engine.size)

    def save_draft(self, held: GenerationPointer, checkpoint: IndexCheckpoint, at: Item) -> GenerationPointer:
        """Store the progress of a rebuild. The cluster already has the documents."""
        return self.pointers.store_draft(held, self._engine.index, at, checkpoint)

    def tidy(self, held: GenerationPointer) -> tuple[GenerationPointer, int]:
        """Delete indexes that are neither published nor being built. Returns the pointer and the number of deleted
        indexes.

        Retains a replaced index for at least KEPT_SECONDS, because requests may still query it.
        """
        if self._replaces:
            return self.pointers.begin_tidy(replace(held, tidied_at=0)) or held, 0
        tidied = self.pointers.begin_tidy(held)
        if tidied is None:
            return held, 0
        used = (held.generation, held.draft.generation if held.draft else None)
        over = [index for index in self._indexes() if index not in used]
        for index in over:
            with mapped_errors():
                self._client.indices.delete(index=index)
        return tidied, len(over)

    def _indexes(self) -> dict[str, list[str]]:
        """Return the indexes of this deployment, as a mapping of names to lists of aliases. Skips all other indexes of
        the cluster."""
        with mapped_errors():
            found = self._client.indices.get_alias(index=f"{self._prefix}-*")
        own = re.compile(rf"{re.escape(self._prefix)}-\d{{8}}-[0-9a-f]{{8}}")
        return {index: list(described["aliases"]) for index, described in found.items() if own.fullmatch(index)}


class SharedIndex:
    """Published index of a cluster, for a search function."""

    def __init__(
        self,
        pointers: PointerStore,
        feed: Feed,
        client: OpenSearch,
        *,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the object without a request to the cluster. `clock` returns epoch seconds, and `elapsed` monotonic
        seconds."""
        self._pointers, self._feed, self._client = pointers, feed, client
        self._clock, self._elapsed, self._sleep = clock, elapsed, sleep
        self._current: CurrentIndex | None = None
        self._looked_at = 0.0
        self._places: Mapping[str, LogCursor] = {}

    @classmethod
    def connect(cls, pointers: PointerStore, feed: Feed, url: str, service: str) -> "SharedIndex":
        """Return the index of the cluster at `url`. `service` is the name of the AWS service in signatures: `es` or
        `aoss`."""
        return cls(pointers, feed, make_client(url, service))

    def current(self, cursors: Mapping[str, LogCursor] | None = None) -> CurrentIndex:
        """Return the engine of the published index, and how current the index is.

        Waits until the index includes all changes before `cursors`, which has a position in each shard log. Raises
        Unavailable after INDEX_WAIT seconds, or if no index is published.
        """
        began = self._elapsed()
        if self._current is None or began - self._looked_at >= LOOK_EVERY:
            self._look()
        while not self._includes(cursors or {}):
            if self._elapsed() - began >= INDEX_WAIT:
                raise Unavailable("The search index does not have these changes yet.", retry_after=2)
            self._sleep(PAUSE)
            self._look()
        return self._current or self._look()

    def _look(self) -> CurrentIndex:
        """Read the name of the published index, and the feed positions up to which the index includes all changes.
        Raises Unavailable if no index is published.

        If the index is more than COMPLETE_SECONDS behind, also compares these positions with the end of the feed, to
        determine whether the index is complete.
        """
        now = self._clock()
        pointer = self._pointers.pointer()
        if pointer.readable is None:
            self._current = None
            raise index_unavailable()
        self._places, self._looked_at = pointer.places, self._elapsed()
        as_of, is_complete = pointer.as_of, pointer.as_of >= (now - COMPLETE_SECONDS) * 1000
        if not is_complete and self._includes(end_cursors(self._feed, shard_logs())):
            as_of, is_complete = int(now * 1000), True
        self._current = CurrentIndex(OpenSearchEngine(self._client, pointer.readable), as_of, is_complete)
        return self._current

    def _includes(self, cursors: Mapping[str, LogCursor]) -> bool:
        return all(self._places[log].next >= cursor.next for log, cursor in cursors.items())
