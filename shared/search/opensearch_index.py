"""Indexes of an OpenSearch cluster: the builder opens and publishes them, and search functions query the published one.

Each rebuild creates an index, such as `videos-00000002-1f0a9c3e`. The alias `videos` names the published index. The
pointer item in the table has the position up to which the published index includes all changes, and the lease of the
builder. The cluster is shared, so search functions do not follow the feed: the indexer does, for all of them.
"""

import time
from collections.abc import Callable, Mapping

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
    ALIAS,
    MAPPINGS,
    SERVERLESS,
    SETTINGS,
    WRITE_SECONDS,
    OpenSearchEngine,
    make_client,
    mapped_errors,
)

COMPLETE_SECONDS = 10
"""Seconds since the indexer reached the end of the feed for which results count as complete. The indexer reads the feed
about once a second."""
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

    def __init__(self, pointers: PointerStore, client: OpenSearch, *, is_serverless: bool = False) -> None:
        self.pointers, self._client, self._is_serverless = pointers, client, is_serverless

    @classmethod
    def connect(cls, pointers: PointerStore, url: str, service: str) -> "OpenSearchStore":
        """Return the store of the cluster at `url`, which `service` names in signatures."""
        return cls(pointers, make_client(url, service, seconds=WRITE_SECONDS), is_serverless=service == SERVERLESS)

    def open(self, held: GenerationPointer, generation: str | None) -> OpenSearchEngine:
        """Open an index. `None` creates one. Raises IncompatibleIndex if the cluster does not have it."""
        checkpoint = None
        if generation is None:
            generation = f"{ALIAS}-{next_generation(held)}"
            body = {"mappings": MAPPINGS, **({} if self._is_serverless else {"settings": SETTINGS})}
            with mapped_errors():
                self._client.indices.create(index=generation, body=body)
        else:
            with mapped_errors():
                is_present = self._client.indices.exists(index=generation)
            if not is_present:
                raise IncompatibleIndex(f"The cluster has no index {generation}.")
            if held.draft and generation == held.draft.generation:
                checkpoint = IndexCheckpoint(held.draft.places, 0)
            else:
                checkpoint = IndexCheckpoint(held.places, held.as_of)
        self._engine = OpenSearchEngine(self._client, generation, checkpoint, is_serverless=self._is_serverless)
        return self._engine

    def publish(self, held: GenerationPointer, checkpoint: IndexCheckpoint) -> GenerationPointer:
        """Let the alias name the open index, and store its position.

        If the builder crashes in between, readers already query the new index, which is newer than its stored position.
        """
        index = self._engine.index
        if index != held.generation:
            held = self.pointers.renew(held)  # verifies the lease, because the cluster cannot
            actions = [
                {"remove": {"index": other, "alias": ALIAS}}
                for other, aliases in self._indexes().items()
                if ALIAS in aliases and other != index
            ]
            with mapped_errors():
                self._client.indices.update_aliases(
                    body={"actions": [{"add": {"index": index, "alias": ALIAS}}, *actions]}
                )
        return self.pointers.point_to(held, index, checkpoint, video_count=self._engine.size)

    def save_draft(self, held: GenerationPointer, checkpoint: IndexCheckpoint, at: Item) -> GenerationPointer:
        """Store the progress of a rebuild. The cluster already has the documents."""
        return self.pointers.store_draft(held, self._engine.index, at, checkpoint)

    def tidy(self, held: GenerationPointer) -> tuple[GenerationPointer, int]:
        """Delete indexes that are neither published nor being built. Returns the pointer and their number."""
        tidied = self.pointers.begin_tidy(held)
        if tidied is None:
            return held, 0
        used = (held.generation, held.draft.generation if held.draft else None)
        over = [index for index, aliases in self._indexes().items() if index not in used and ALIAS not in aliases]
        for index in over:
            with mapped_errors():
                self._client.indices.delete(index=index)
        return tidied, len(over)

    def _indexes(self) -> dict[str, list[str]]:
        """Return the aliases of each index of this service, by its name."""
        with mapped_errors():
            found = self._client.indices.get_alias(index=f"{ALIAS}-*")
        return {index: list(described["aliases"]) for index, described in found.items()}


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
        """Create the index without a request. `clock` returns epoch seconds, and `elapsed` monotonic seconds."""
        self._pointers, self._feed = pointers, feed
        self._engine = OpenSearchEngine(client)
        self._clock, self._elapsed, self._sleep = clock, elapsed, sleep
        self._current: CurrentIndex | None = None
        self._looked_at = 0.0
        self._places: Mapping[str, LogCursor] = {}

    @classmethod
    def connect(cls, pointers: PointerStore, feed: Feed, url: str, service: str) -> "SharedIndex":
        """Return the index of the cluster at `url`, which `service` names in signatures."""
        return cls(pointers, feed, make_client(url, service))

    def current(self, cursors: Mapping[str, LogCursor] | None = None) -> CurrentIndex:
        """Return the engine, and how current the index is.

        The result includes all changes before `cursors`, which are positions in the logs of all owners' changes. The
        method waits up to INDEX_WAIT seconds for these changes. Raises Unavailable if the index lacks them then, or if
        no index is published.
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
        """Read the position of the published index, and compare it with the end of the feed unless it is recent."""
        now = self._clock()
        pointer = self._pointers.pointer()
        if pointer.readable is None:
            self._current = None
            raise index_unavailable()
        self._places, self._looked_at = pointer.places, self._elapsed()
        as_of, is_complete = pointer.as_of, pointer.as_of >= (now - COMPLETE_SECONDS) * 1000
        if not is_complete and self._includes(end_cursors(self._feed, shard_logs())):
            as_of, is_complete = int(now * 1000), True
        self._current = CurrentIndex(self._engine, as_of, is_complete)
        return self._current

    def _includes(self, cursors: Mapping[str, LogCursor]) -> bool:
        return all(self._places[log].next >= cursor.next for log, cursor in cursors.items())
