"""OpenSearch engine: adds, removes and finds videos in an index of an OpenSearch cluster.

One document per video contains everything that queries match, including the captions as one text per language. Cues are
not nested documents, for three reasons. First, a phrase may span cues. Second, a cluster permits 10,000 nested
documents per video, and captions have up to 40,000 cues. Third, a film would need 1,000 hidden documents instead of
one. Cues are not in a separate index either. A query would then have to join cues by video, and could neither count nor
rank the videos.

A page needs one request for the hits, one for their texts, and one for their captions. Each page after the first also
needs a request for the last hit of the previous page. The cluster needs no language plugins. It receives the normalised
words that every engine indexes, and splits them at white space.

Writes have external versions: the position in the feed up to which a document is current. The cluster rejects a
document or deletion that is not newer, so repeated and late writes are harmless. A cluster remembers the version of a
deleted document for REMEMBER_DELETED, or for one minute in a serverless collection.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
from opensearchpy import OpenSearch, Transport, Urllib3AWSV4SignerAuth, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as NotConnected
from opensearchpy.exceptions import NotFoundError, TransportError
from urllib3 import Timeout

from shared.core.caller import Caller
from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS, has_time
from shared.core.errors import Unavailable
from shared.core.telemetry import service_logger, silence
from shared.feed.log import OLDEST, LogCursor, shard_logs
from shared.schema import shard_of
from shared.search.document import VideoDocument
from shared.search.engine import (
    DEEPEST,
    MAX_VALUES,
    Hit,
    IndexCheckpoint,
    SearchHits,
    by_rank,
    index_unavailable,
    most_frequent,
    page_of,
)
from shared.search.index_query import (
    ALL,
    GRAIN,
    REPEATED,
    WEIGHTS,
    AllOf,
    AnyOf,
    BestOf,
    ConstantScore,
    FuzzyQuery,
    IdsQuery,
    IndexQuery,
    LongerQuery,
    PhraseQuery,
    QueryTree,
    RangeQuery,
    SearchFilters,
    Term,
    TermQuery,
    candidates,
    distinctive_terms,
)
from shared.search.query_parser import SearchQuery
from shared.search.stored import CaptionText, StoredFields, distinct_words, language_prefixes
from shared.search.tokenizer import tokens
from shared.video_fields import FACETS, NUMERIC_FACETS
from shared.videos.tags import normalise_tag

SERVERLESS = "aoss"
"""Name of OpenSearch Serverless in signatures. The name of managed domains is `es`."""
WRITE_SECONDS = 60
"""Time-out of a bulk write in seconds."""
MAX_BULK_BYTES = 5_000_000
"""Maximum size of a request in bytes, unless it has a single document. The smallest nodes accept requests of 10 MB."""
LARGEST_DOCUMENT = 9_000_000
"""Maximum size of a document in bytes. If a document is larger, captions are omitted, the last languages first."""
MAX_ATTEMPTS = 5
"""Maximum number of attempts to write a document that the cluster refuses because it is busy."""
MAX_CHARACTERS = 2_000_000
"""Number of caption characters after which `OpenSearchEngine.stored` begins another request for captions."""
REMEMBER_DELETED = "1h"
"""Time for which the index remembers versions of deleted documents. A function's run ends sooner, so no late write of a
run can restore a deleted video."""
SHARD_VALUES = 10_000
"""Number of values of a facet that each shard counts. Counts are exact if no shard has more values."""
VISIBLE_SECONDS = 60
"""Maximum seconds until writes are visible in a serverless collection, which refreshes its indexes automatically."""
MAX_PATTERN = 900
"""Maximum length of a regular expression in UTF-16 units. OpenSearch rejects more than 1,000 by default
(`index.max_regex_length`)."""
BUSY = (429, 500, 502, 503, 504)
"""Statuses of requests that may succeed later."""
INVALID = 400
"""Status of a request with an invalid document."""
TOO_LARGE = 413
"""Status of a request that exceeds the limit of the cluster's nodes."""

_WORDS: Mapping[str, Any] = {"type": "text", "analyzer": "whitespace", "norms": False}
_KEYWORD: Mapping[str, Any] = {"type": "keyword"}
_NUMBER: Mapping[str, Any] = {"type": "long"}
_HIDDEN: Mapping[str, Any] = {"type": "object", "enabled": False}
MAPPINGS: Mapping[str, Any] = {
    "dynamic": "strict",
    # Documents are stored without the indexed words. The words of captions are stored, because quotes are found in
    # them.
    "_source": {"excludes": [ALL, *(name for name in WEIGHTS if name != "captions")]},
    "properties": {
        "id": _KEYWORD,
        "owner": _KEYWORD,
        "language": _KEYWORD,
        "visible": {"type": "boolean"},
        **dict.fromkeys(("createdAt", "publishAt", "expiresAt", "purgeAt", "length", "saidLength"), _NUMBER),
        **{facet: _NUMBER if facet in NUMERIC_FACETS else _KEYWORD for facet in FACETS},
        **dict.fromkeys(WEIGHTS, _WORDS),
        ALL: {**_WORDS, "index_options": "docs"},
        "shown": _HIDDEN,
        "said": _HIDDEN,
    },
}
"""Fields of the index. `shown` and `said` have the texts in their original spelling, and are not indexed."""
SETTINGS: Mapping[str, Any] = {
    "index": {"gc_deletes": REMEMBER_DELETED, "number_of_shards": 5, "auto_expand_replicas": "0-1"}
}
"""Settings of an index of a managed domain. A serverless collection has no such settings."""


def write_alias(index: str) -> str:
    """Return the alias through which the service writes to an index. A write to the alias fails if the index was
    deleted. A write to the index's name would create the index again, with a mapping derived from the document."""
    return f"{index}-write"


class RequestRefused(Exception):
    """Error: the cluster refuses a request, which will not succeed later. The message never contains the request."""

    def __init__(self, status: int | str, reason: str | None) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.reason = status, reason


class TimedTransport(Transport):
    """Transport that skips an attempt if it could exceed the deadline (shared/core/deadline.py)."""

    def get_connection(self) -> Any:
        """Return the connection of an attempt. Raises Unavailable if the deadline leaves no time for the attempt."""
        connection = super().get_connection()
        if not has_time(longest=connection.timeout.connect_timeout + connection.timeout.read_timeout):
            raise busy_cluster()
        return connection


def make_client(url: str, service: str | None = None, *, seconds: float = READ_SECONDS, **options: Any) -> OpenSearch:
    """Return a client of the cluster at `url`. `seconds` is the time-out of a response.

    The client repeats a request once, if it cannot connect.

    `service` is the service in signatures, `es` or `aoss`. `None` sends unsigned requests, for a cluster in tests.
    botocore signs the requests, because the service's own signer (shared/aws/lean/signing.py) signs only POST requests
    to `/`.
    """
    auth = None
    if service:
        from botocore.session import get_session

        region = os.environ.get("AWS_REGION") or os.environ["AWS_DEFAULT_REGION"]
        auth = Urllib3AWSV4SignerAuth(get_session().get_credentials(), region, service)
    # At lower levels, the library logs whole requests, which contain the words that users search for.
    silence("opensearch")
    return OpenSearch(
        hosts=[url],
        http_auth=auth,
        timeout=Timeout(connect=CONNECT_SECONDS, read=seconds),
        transport_class=TimedTransport,
        max_retries=1,
        retry_on_status=(),
        http_compress=True,
        pool_maxsize=4,
        **{"connection_class": Urllib3HttpConnection, **options},
    )


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Convert errors of the OpenSearch library to errors of this service. Raises Unavailable if a retry may succeed, or
    if the index does not exist yet.

    Other errors become RequestRefused, with the status and the type of the error.
    """
    try:
        yield
    except NotConnected as error:  # includes time-outs
        raise busy_cluster() from error
    except NotFoundError:
        raise index_unavailable() from None
    except TransportError as error:
        if error.status_code in BUSY:
            raise busy_cluster() from None
        raise RequestRefused(error.status_code, error.error) from None


def busy_cluster() -> Unavailable:
    """Return the error for a cluster that is busy or unreachable."""
    return Unavailable("The search index is busy.", retry_after=2)


def create_index(client: OpenSearch, index: str, *, is_serverless: bool = False) -> None:
    """Create an empty index with its write alias."""
    alias = write_alias(index)
    with mapped_errors():
        if is_serverless:
            # AWS documents `_aliases` as the request with which a collection creates an alias.
            client.indices.create(index=index, body={"mappings": MAPPINGS})
            client.indices.update_aliases(body={"actions": [{"add": {"index": index, "alias": alias}}]})
        else:
            body = {"mappings": MAPPINGS, "settings": SETTINGS, "aliases": {alias: {}}}
            client.indices.create(index=index, body=body)


class _PendingWrite(NamedTuple):
    video_id: str
    version: int
    is_deletion: bool
    lines: bytes
    """Lines of the bulk request."""

    @classmethod
    def of(cls, video_id: str, version: int, document: Mapping[str, Any] | None = None) -> "_PendingWrite":
        """Return the write of a document, or the deletion of the video's document if `document` is `None`."""
        action = {"_id": video_id, "version": version, "version_type": "external"}
        lines = [orjson.dumps({"delete" if document is None else "index": action})]
        if document is not None:
            lines.append(_limited(document))
        return cls(video_id, version, document is None, b"\n".join(lines) + b"\n")


class OpenSearchEngine:
    """Index of an OpenSearch cluster. Queries read it, and one consumer of the feed writes changes to it.

    engine = OpenSearchEngine(make_client("https://search.example", "es"), "videos-prod-00000002-1f0a9c3e")
    total = engine.search(parse("lions"), Caller("bob", frozenset()), now).total
    """

    def __init__(
        self,
        client: OpenSearch,
        index: str,
        checkpoint: IndexCheckpoint | None = None,
        *,
        is_serverless: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the engine. It sends no request. `checkpoint` is the checkpoint of the last commit."""
        self._client, self.index, self._checkpoint = client, index, checkpoint
        self._is_serverless, self._sleep = is_serverless, sleep
        self._pending: list[_PendingWrite] = []
        self._pending_bytes = 0
        self._unseen: dict[str, _PendingWrite] = {}
        """Accepted writes that queries may not see yet: the last write of each video, by video id."""

    @property
    def checkpoint(self) -> IndexCheckpoint | None:
        """Checkpoint of the last commit. `None` before the first one."""
        return self._checkpoint

    @property
    def size(self) -> int:
        """Number of indexed videos. Costs one request."""
        with mapped_errors():
            return int(self._client.count(index=self.index)["count"])

    def put(
        self,
        documents: Iterable[VideoDocument],
        deleted_ids: Iterable[str] = (),
        places: Mapping[str, LogCursor] | None = None,
    ) -> None:
        """Add or replace videos, and delete the videos in `deleted_ids`. Sends the changes in large requests."""
        places = places if places is not None else self._checkpoint.places if self._checkpoint else {}
        for video in documents:
            self._add(video.video_id, places, document_of(video))
        for video_id in deleted_ids:
            self._add(video_id, places, None)

    def commit(self, at: IndexCheckpoint) -> None:
        """Send pending changes, and wait until queries see them. The caller stores the checkpoint."""
        self._send()
        if self._unseen:
            self._show()
        self._checkpoint = at

    def close(self) -> None:
        """Discard uncommitted changes."""
        self._pending, self._pending_bytes = [], 0

    def search(
        self,
        search_query: SearchQuery,
        caller: Caller,
        now: int,
        *,
        filters: SearchFilters = SearchFilters(),  # noqa: B008  (it is frozen)
        facets: Collection[str] = (),
        limit: int = 25,
        after: Hit | None = None,
        without: Collection[str] = (),
    ) -> SearchHits:
        """Return a page of the videos that match the query and that the caller may see at `now`."""
        query = IndexQuery(search_query, caller, now, filters, without)
        limit = min(limit, DEEPEST)
        last = after
        if after:
            present = self._hits(self._ask(query.with_id(after.video_id), query.is_by_time, 1))
            last = present[0] if present else after
        size = DEEPEST if last else min(limit + 1, DEEPEST)
        response = self._ask(query.query, query.is_by_time, size, {name: _facet(name) for name in facets})
        hits, more = page_of(sorted(self._hits(response), key=by_rank), last, limit)
        counts = response.get("aggregations", {})
        facet_values = {name: most_frequent(counts[name]["buckets"], name in NUMERIC_FACETS) for name in facets}
        return SearchHits(hits, response["hits"]["total"]["value"], facet_values, more)

    def similar(self, video_id: str, caller: Caller, now: int, *, limit: int = 10) -> list[Hit] | None:
        """Return the other videos that are most similar to a video. `None` if the index does not contain this video.
        Costs four requests."""
        stored = next(self.stored([video_id]))
        if stored is None:
            return None
        query = IndexQuery.excluding(video_id, caller, now)
        term_counts = candidates(stored.words())
        frequencies, total = self._matching_terms(query.all, list(term_counts))
        terms = distinctive_terms(term_counts, frequencies, total)
        if not terms:
            return []
        query.like(terms)
        return self._hits(self._ask(query.query, query.is_by_time, min(limit, DEEPEST)))[:limit]

    def stored(self, video_ids: Sequence[str], *, max_characters: int | None = None) -> Iterator[StoredFields | None]:
        """Yield the stored texts of each video, in the order of `video_ids`. Each request for captions reads about
        MAX_CHARACTERS characters."""
        texts = self._sources(video_ids, "shown", "saidLength")
        group: list[tuple[str, Mapping[str, Any] | None]] = []
        size, remaining = 0, max_characters
        for video_id, source in zip(video_ids, texts, strict=True):
            length = source["saidLength"] if source else 0
            if remaining is not None:
                if length > remaining:
                    source = None
                else:
                    remaining -= length
            group.append((video_id, source))
            size += length if source else 0
            if size > MAX_CHARACTERS:
                yield from self._with_captions(group)
                group, size = [], 0
        yield from self._with_captions(group)

    def _with_captions(self, group: Sequence[tuple[str, Mapping[str, Any] | None]]) -> Iterator[StoredFields | None]:
        spoken = [video_id for video_id, source in group if source and source["saidLength"]]
        captions = dict(zip(spoken, self._sources(spoken, "said", "captions"), strict=True)) if spoken else {}
        for video_id, source in group:
            said = captions.get(video_id) or {"said": {"captions": []}, "captions": []}
            yield (
                None
                if source is None
                else StoredFields(
                    **source["shown"],
                    captions=[
                        CaptionText(**caption, words=words)
                        for caption, words in zip(said["said"]["captions"], said["captions"], strict=True)
                    ],
                )
            )

    def _sources(self, video_ids: Sequence[str], *fields: str) -> list[Mapping[str, Any] | None]:
        """Return the given fields of each video's document, in the order of `video_ids`. `None` for a video that is not
        indexed."""
        if not video_ids:
            return []
        with mapped_errors():
            found = self._client.mget(
                body={"ids": list(video_ids)}, index=self.index, params={"_source_includes": ",".join(fields)}
            )
        if any("error" in document for document in found["docs"]):
            raise index_unavailable()
        return [document["_source"] if document["found"] else None for document in found["docs"]]

    def _ask(
        self, tree: QueryTree, is_by_time: bool, size: int, aggregations: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Send a query, and return the response. It has at most `size` hits, best first, each with its sort values."""
        first = {"createdAt": {"order": "desc"}} if is_by_time else {"_score": {"order": "desc"}}
        body: dict[str, Any] = {
            "query": compiled(tree),
            "sort": [first, {"id": {"order": "asc"}}],
            "size": size,
            "_source": False,
            "track_total_hits": True,
        }
        if aggregations:
            body["aggs"] = aggregations
        with mapped_errors():
            # A partial result would have wrong counts.
            response: Mapping[str, Any] = self._client.search(
                body=body, index=self.index, params={"allow_partial_search_results": "false"}
            )
        if response["timed_out"] or response["_shards"]["failed"]:
            raise busy_cluster()
        return response

    @staticmethod
    def _hits(response: Mapping[str, Any]) -> list[Hit]:
        ranks = ((hit["sort"][1], round(hit["sort"][0] * GRAIN) / GRAIN) for hit in response["hits"]["hits"])
        return [Hit(video_id, rank, rank) for video_id, rank in ranks]

    def _matching_terms(self, tree: QueryTree, terms: Sequence[Term]) -> tuple[dict[Term, int], int]:
        """Return, for each term, the number of the query's results that contain it. Also return the total number of
        results."""
        if not terms:
            return {}, 0
        filters = {str(number): compiled(TermQuery(*term)) for number, term in enumerate(terms)}
        response = self._ask(tree, True, 0, {"terms": {"filters": {"filters": filters}}})
        buckets = response["aggregations"]["terms"]["buckets"]
        counts = {term: buckets[str(number)]["doc_count"] for number, term in enumerate(terms)}
        return counts, response["hits"]["total"]["value"]

    def _add(self, video_id: str, places: Mapping[str, LogCursor], document: Mapping[str, Any] | None) -> None:
        version = places.get(shard_logs()[shard_of(video_id)], OLDEST).next
        write = _PendingWrite.of(video_id, version, document)
        if self._pending_bytes + len(write.lines) > MAX_BULK_BYTES:
            self._send()
        self._pending.append(write)
        self._pending_bytes += len(write.lines)

    def _send(self) -> None:
        """Send pending changes, in at most MAX_ATTEMPTS attempts before the deadline. Raises Unavailable if the cluster
        is too busy for some of the changes.

        Raises RequestRefused for a refusal that does not concern a document, such as a write block.
        """
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for attempt in range(MAX_ATTEMPTS):
            if not pending:
                return
            if attempt:
                pause = 2 ** (attempt - 1)
                if not has_time(pause, CONNECT_SECONDS + WRITE_SECONDS):
                    break
                self._sleep(pause)
            pending = self._refused(pending)
        if pending:
            raise busy_cluster()

    def _refused(self, writes: Sequence[_PendingWrite]) -> list[_PendingWrite]:
        """Send these writes in one request, or in several if the cluster refuses it as too large.

        Returns the writes to repeat, because the cluster is too busy for them. If a document is invalid or too large,
        logs an error and deletes the video's older document. The older document could show texts that are now private.
        """
        try:
            with mapped_errors():
                response = self._client.bulk(
                    body=b"".join(write.lines for write in writes),
                    index=write_alias(self.index),
                    params={"filter_path": "items.*.status,items.*.error.type", "require_alias": "true"},
                )
        except Unavailable:
            return list(writes)
        except RequestRefused as error:
            if error.status != TOO_LARGE:
                raise
            if len(writes) == 1:
                return self._refused([_deletion(writes[0], TOO_LARGE, error.reason)])
            middle = len(writes) // 2
            return [*self._refused(writes[:middle]), *self._refused(writes[middle:])]
        refused, deletions = [], []
        for write, item in zip(writes, response["items"], strict=True):
            (result,) = item.values()
            status, reason = result["status"], result.get("error", {}).get("type")
            if status == 404 and reason:
                raise index_unavailable()
            if status in BUSY:
                refused.append(write)
            elif status == INVALID:  # the only status that means a fault of the document
                deletions.append(_deletion(write, status, reason))
            # 409: the index has this version or a newer one. 404: a video to delete does not exist.
            elif status < 400 or status in (404, 409):
                self._unseen.pop(write.video_id, None)  # removed first, so that the latest write becomes the last entry
                self._unseen[write.video_id] = write._replace(lines=b"")
            else:
                raise RequestRefused(status, reason)
        return [*refused, *(self._refused(deletions) if deletions else ())]

    def _show(self) -> None:
        """Make the sent changes visible to queries."""
        if not self._is_serverless:
            with mapped_errors():
                self._client.indices.refresh(index=self.index)
            self._unseen.clear()
            return
        # A collection refuses a request to refresh. Therefore poll until a query finds the latest changes.
        for _ in range(VISIBLE_SECONDS):
            if self._are_visible(list(self._unseen.values())[-DEEPEST:]):
                self._unseen.clear()
                return
            self._sleep(1)
        raise busy_cluster()

    def _are_visible(self, writes: Sequence[_PendingWrite]) -> bool:
        body = {
            "query": {"ids": {"values": [write.video_id for write in writes]}},
            "size": len(writes),
            "version": True,
            "_source": False,
        }
        with mapped_errors():
            response = self._client.search(body=body, index=self.index)
        versions = {hit["_id"]: hit["_version"] for hit in response["hits"]["hits"]}
        return all(
            (write.is_deletion and write.video_id not in versions) or versions.get(write.video_id, -1) >= write.version
            for write in writes
        )


def _deletion(write: _PendingWrite, status: int, reason: str | None) -> _PendingWrite:
    """Log that the cluster refuses a document permanently, and return the deletion of the video's older document.

    The deletion has the version of the refused document, so a newer document replaces it. Raises RequestRefused if the
    refused write is a deletion.
    """
    if write.is_deletion:
        raise RequestRefused(status, reason)
    details = {"video_id": write.video_id, "status": status, "reason": reason}
    service_logger().error("video not indexed", extra=details)
    return _PendingWrite.of(write.video_id, write.version)


def document_of(video: VideoDocument) -> dict[str, Any]:
    """Return the document of a video, with all fields of MAPPINGS that the video has."""
    stored = StoredFields.of(video)
    texts = stored.words()
    times = {"publishAt": video.publish_at, "expiresAt": video.expires_at, "purgeAt": video.purge_at}
    said = [{"language": language, "starts": starts, "texts": text} for language, starts, text, _ in stored.captions]
    return {
        "id": video.video_id,
        "owner": video.user_id,
        "visible": video.visible,
        "createdAt": video.created_at,
        **{name: time for name, time in times.items() if time is not None},
        **video.facets,
        "tag": sorted({normalise_tag(tag) for tag in video.tags}),
        "language": language_prefixes(video.language),
        "length": len(tokens(video.title)),
        **texts,
        ALL: distinct_words(texts),
        "saidLength": stored.caption_length,
        "shown": {
            "title": stored.title,
            "names": stored.names,
            "tags": stored.tags,
            "description": stored.description,
        },
        "said": {"captions": said},
    }


def _limited(document: Mapping[str, Any]) -> bytes:
    """Return the JSON of a document. Omits captions, the last languages first, if the JSON exceeds LARGEST_DOCUMENT."""
    data = orjson.dumps(document)
    while len(data) > LARGEST_DOCUMENT and document["captions"]:
        captions, said = document["captions"][:-1], document["said"]["captions"][:-1]
        texts = {name: document[name] for name in WEIGHTS} | {"captions": captions}
        length = sum(len(caption["texts"]) + 1 for caption in said)
        document = {
            **document,
            **texts,
            ALL: distinct_words(texts),
            "said": {"captions": said},
            "saidLength": length,
        }
        data = orjson.dumps(document)
    return data


def _facet(name: str) -> dict[str, Any]:
    order = [{"_count": "desc"}, {"_key": "asc"}]
    return {"terms": {"field": name, "size": MAX_VALUES, "shard_size": SHARD_VALUES, "order": order}}


def compiled(tree: QueryTree) -> dict[str, Any]:
    """Return the query of OpenSearch for a query tree."""
    match tree:
        case TermQuery(field, value):
            return {"term": {field: {"value": value}}}
        case IdsQuery(ids):
            return {"ids": {"values": list(ids)}}
        case RangeQuery(field, first, last):
            bounds = {"gte": first, "lte": last}
            return {"range": {field: {name: bound for name, bound in bounds.items() if bound is not None}}}
        case FuzzyQuery(field, text, typos, is_prefix):
            if not is_prefix:
                # With this rewrite, the query matches all similar words. Other rewrites match only the 50 most similar.
                return {"fuzzy": {field: {"value": text, "fuzziness": typos, "rewrite": "constant_score"}}}
            if not typos:
                return {"prefix": {field: {"value": text}}}
            return _any([_regexp(field, pattern) for pattern in patterns_of_prefix(text)])
        case LongerQuery(field):
            return _regexp(field, tree.pattern)
        case PhraseQuery(field, texts):
            return {"match_phrase": {field: {"query": " ".join(texts)}}}
        case ConstantScore(query, score):
            return {"constant_score": {"filter": compiled(query), "boost": score}}
        case BestOf(queries):
            return {"dis_max": {"queries": [compiled(query) for query in queries], "tie_breaker": REPEATED}}
        case AnyOf(queries):
            return _any([compiled(query) for query in queries])
        case AllOf(must, must_not, should):
            unscored = [query for query in must if isinstance(query, ConstantScore) and not query.score]
            parts = {
                "must": [compiled(query) for query in must if query not in unscored],
                "filter": [compiled(query.query) for query in unscored] or ([] if must else [{"match_all": {}}]),
                "must_not": [compiled(query) for query in must_not],
                "should": [compiled(query) for query in should],
            }
            return {"bool": {name: queries for name, queries in parts.items() if queries}}


def _any(queries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"bool": {"should": queries, "minimum_should_match": 1}}


def _regexp(field: str, pattern: str) -> dict[str, Any]:
    # With the flags `NONE`, only the standard operators of regular expressions have a meaning.
    return {"regexp": {field: {"value": pattern, "flags": "NONE", "rewrite": "constant_score"}}}


def patterns_of_prefix(text: str) -> list[str]:
    """Return regular expressions of the words whose start differs from `text` by at most one typo.

    OpenSearch has no query for prefixes with typos. Each expression has at most MAX_PATTERN UTF-16 units.
    """
    starts = {text}
    for at in range(len(text)):
        before, after = text[:at], text[at + 1 :]
        starts |= {f"{before}{after}", f"{before}.{after}", f"{before}.{text[at:]}"}
        if after:
            starts.add(f"{before}{after[0]}{text[at]}{after[1:]}")
    patterns = [""]
    for start in sorted(starts):
        if utf16_length(f"{patterns[-1]}|{start}().*") > MAX_PATTERN:
            patterns.append("")
        patterns[-1] += f"|{start}" if patterns[-1] else start
    return [f"({pattern}).*" for pattern in patterns]


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units. OpenSearch counts these units, because it is a Java program."""
    return len(text.encode("utf-16-le")) // 2
