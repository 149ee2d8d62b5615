"""In-memory OpenSearch cluster, with the documented behaviour of the requests that the service sends.

The tests cannot install a real server, so this code was never compared with one. Its behaviour has three sources:

- Requests are validated against OpenSearch's published API specification (tests/opensearch_api.json).
- Queries, versions, refreshes and aliases follow OpenSearch's documentation, each with its page below.
- Errors have the statuses that the documentation names.

The conformance suite runs the same tests on this cluster and on the embedded engine. Run it on a real cluster with

    OPENSEARCH_URL=http://localhost:9200 python -m pytest tests/unit/test_search_conformance.py

Not simulated: limits on queries and memory, several shards, time-outs under load, signatures, and the differences of
a serverless collection.
"""

import copy
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from opensearchpy import Connection, OpenSearch
from opensearchpy.exceptions import ConnectionError as NotConnected

from shared.search.opensearch_engine import make_client, utf16_length
from shared.search.tokenizer import distance

API: Mapping[str, Any] = json.loads(Path(__file__).with_name("opensearch_api.json").read_text())
"""Operations that the service sends, with their parameters and the schemas of their bodies."""

Scores = Mapping[str, float]
"""Scores of the documents that match a query, by id."""
Source = Mapping[str, Any]


class Refused(Exception):
    """Error response of the cluster."""

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(f"{status} {kind}")
        self.status, self.kind = status, kind


class Index:
    """Index of the cluster: the latest documents, and the documents that queries see since the last refresh."""

    def __init__(self, mappings: Mapping[str, Any]) -> None:
        self.properties: Mapping[str, Mapping[str, Any]] = mappings.get("properties", {})
        self.is_strict = mappings.get("dynamic") == "strict"
        self.excluded = set(mappings.get("_source", {}).get("excludes", ()))
        self.versions: dict[str, int] = {}
        """Version of each document, also of deleted ones."""
        self.latest: dict[str, Source] = {}
        self.visible: dict[str, Source] = {}
        self.visible_versions: dict[str, int] = {}
        self.terms: dict[str, dict[str | int | bool, set[str]]] = {}
        """Ids of visible documents, by field and term."""
        self.texts: dict[str, dict[str, list[list[str]]]] = {}
        """Words of each text of a document, by field and id."""

    def write(self, action: str, details: Mapping[str, Any], source: Source | None) -> tuple[int, str | None]:
        """Apply one line of a bulk request. Returns the status, and the type of the error.

        https://docs.opensearch.org/latest/api-reference/document-apis/index-document/ (`version_type`)
        """
        document_id, version = details["_id"], details["version"]
        if self.versions.get(document_id, -1) >= version:
            return 409, "version_conflict_engine_exception"
        if source is not None and self.is_strict and (source.keys() - self.properties):
            return 400, "strict_dynamic_mapping_exception"
        self.versions[document_id] = version
        existed = document_id in self.latest
        if action == "delete":
            self.latest.pop(document_id, None)
            return (200 if existed else 404), None
        assert source is not None
        self.latest[document_id] = source
        return (200 if existed else 201), None

    def refresh(self) -> None:
        """Make the latest documents visible to queries.

        https://docs.opensearch.org/latest/api-reference/index-apis/refresh/
        """
        self.visible, self.visible_versions = dict(self.latest), dict(self.versions)
        self.terms, self.texts = {}, {}
        for name, described in self.properties.items():
            if described.get("enabled", True):
                terms = self.terms[name] = {}
                for document_id, source in self.visible.items():
                    values = source.get(name, [])
                    values = values if isinstance(values, list) else [values]
                    if described["type"] == "text":
                        # https://docs.opensearch.org/latest/analyzers/tokenizers/whitespace/
                        words = self.texts.setdefault(name, {})[document_id] = [text.split() for text in values]
                        values = [word for text in words for word in text]
                    for value in values:
                        terms.setdefault(value, set()).add(document_id)

    def source_of(self, document_id: str, included: Sequence[str]) -> Source:
        """Return the fields `included` of a stored document. Fields that the mapping excludes from the source are
        missing."""
        source = self.latest[document_id]
        return {name: source[name] for name in included if name in source and name not in self.excluded}

    def matches(self, query: Mapping[str, Any]) -> Scores:
        """Return the documents that match a query. https://docs.opensearch.org/latest/query-dsl/"""
        ((kind, body),) = query.items()
        return QUERIES[kind](self, body)

    def documents_with(self, field: str, fits: Callable[[Any], bool]) -> Scores:
        """Return the documents that have a term in `field` for which `fits` returns true. The score of each is 1."""
        found = (ids for term, ids in self.terms[field].items() if fits(term))
        return dict.fromkeys(set[str]().union(*found), 1.0)


def _term(index: Index, body: Mapping[str, Any]) -> Scores:
    ((field, options),) = body.items()
    return dict.fromkeys(index.terms[field].get(options["value"], ()), 1.0)


def _range(index: Index, body: Mapping[str, Any]) -> Scores:
    ((field, bounds),) = body.items()
    low, high = bounds.get("gte", -(2**63)), bounds.get("lte", 2**63)
    return index.documents_with(field, lambda value: low <= value <= high)


def _fuzzy(index: Index, body: Mapping[str, Any]) -> Scores:
    """Match similar terms. A transposition counts as one edit.

    https://docs.opensearch.org/latest/query-dsl/term/fuzzy/
    """
    ((field, options),) = body.items()
    assert options["rewrite"] == "constant_score", "others match only the 50 most similar terms"
    text, most = options["value"], options["fuzziness"]
    return index.documents_with(field, lambda word: distance(text, word, most) <= most)


def _prefix(index: Index, body: Mapping[str, Any]) -> Scores:
    ((field, options),) = body.items()
    return index.documents_with(field, lambda word: word.startswith(options["value"]))


def _regexp(index: Index, body: Mapping[str, Any]) -> Scores:
    """Match whole terms with a pattern. https://docs.opensearch.org/latest/query-dsl/term/regexp/"""
    ((field, options),) = body.items()
    assert options["flags"] == "NONE"
    assert utf16_length(options["value"]) <= 1000, "index.max_regex_length"
    pattern = re.compile(options["value"])
    return index.documents_with(field, lambda word: pattern.fullmatch(word) is not None)


def _phrase(index: Index, body: Mapping[str, Any]) -> Scores:
    """Match consecutive words of one text. Never matches across two texts of an array, because OpenSearch places them
    100 positions apart (`position_increment_gap`)."""
    ((field, options),) = body.items()
    words = options["query"].split()
    ids = set.intersection(*(index.terms[field].get(word, set()) for word in words))

    def has(text: list[str]) -> bool:
        return any(text[at : at + len(words)] == words for at in range(len(text)))

    return {id_: 1.0 for id_ in ids if any(has(text) for text in index.texts[field][id_])}


def _constant(index: Index, body: Mapping[str, Any]) -> Scores:
    return dict.fromkeys(index.matches(body["filter"]), body["boost"])


def _best(index: Index, body: Mapping[str, Any]) -> Scores:
    """Score each document by its best query, plus `tie_breaker` times its other scores.

    https://docs.opensearch.org/latest/query-dsl/compound/disjunction-max/
    """
    found = [index.matches(query) for query in body["queries"]]
    scores: dict[str, float] = {}
    for document_id in set[str]().union(*found):
        each = [scored[document_id] for scored in found if document_id in scored]
        scores[document_id] = max(each) + body["tie_breaker"] * (sum(each) - max(each))
    return scores


def _bool(index: Index, body: Mapping[str, Any]) -> Scores:
    """Match documents by the clauses `must`, `filter` and `should`.

    https://docs.opensearch.org/latest/query-dsl/compound/bool/
    """
    must = [index.matches(query) for query in body.get("must", ())]
    filters = [index.matches(query) for query in body.get("filter", ())]
    should = [index.matches(query) for query in body.get("should", ())]
    needed = body.get("minimum_should_match", 0 if must or filters else min(1, len(should)))
    ids = set(index.visible).intersection(*must, *filters)
    if needed:
        ids &= set[str]().union(*should)
    ids = ids.difference(*(index.matches(query) for query in body.get("must_not", ())))
    return {id_: sum(scored.get(id_, 0.0) for scored in (*must, *should)) for id_ in ids}


MAX_REQUEST_BYTES = 10 * 2**20
"""Maximum size of an uncompressed request on the smallest nodes."""

QUERIES: Mapping[str, Callable[[Index, Any], Scores]] = {
    "term": _term,
    "ids": lambda index, body: {id_: 1.0 for id_ in body["values"] if id_ in index.visible},
    "match_all": lambda index, _: dict.fromkeys(index.visible, 1.0),
    "range": _range,
    "fuzzy": _fuzzy,
    "prefix": _prefix,
    "regexp": _regexp,
    "match_phrase": _phrase,
    "constant_score": _constant,
    "dis_max": _best,
    "bool": _bool,
}


ITEM_ERRORS = {400: "mapper_parsing_exception", 403: "cluster_block_exception"}
"""Errors of the items of bulk requests, by status."""


class Cluster:
    """Cluster in memory. Tests add statuses to `faults`, one for each of the next requests: 200 is success, and 0
    closes the connection."""

    def __init__(self) -> None:
        self.indexes: dict[str, Index] = {}
        self.aliases: dict[str, set[str]] = {}
        self.faults: list[int] = []
        self.item_faults: list[int] = []
        """Statuses of the next items of bulk requests. 0 means success."""
        self.requests: list[str] = []
        """Methods and paths of the requests."""

    def client(self, **options: Any) -> OpenSearch:
        """Return a client of this cluster. `options` are parameters of `make_client`."""
        cluster = self

        class InMemory(Connection):
            def perform_request(
                self,
                method: str,
                url: str,
                params: Mapping[str, Any] | None = None,
                body: bytes | None = None,
                timeout: float | None = None,
                ignore: Collection[int] = (),
                headers: Mapping[str, str] | None = None,
            ) -> Any:
                try:
                    response = cluster.respond(method, url, params or {}, body)
                except Refused as refused:
                    error = json.dumps({"error": {"type": refused.kind}, "status": refused.status})
                    self._raise_error(refused.status, error, "application/json")
                return 200, {"content-type": "application/json"}, json.dumps(response)

        return make_client("http://cluster", connection_class=InMemory, **options)

    def respond(self, method: str, path: str, params: Mapping[str, Any], body: bytes | None) -> Any:
        """Return the body of a response. Raises Refused for an error status."""
        self.requests.append(f"{method} {path}")
        if self.faults and (status := self.faults.pop(0)) != 200:
            if not status:
                raise NotConnected("N/A", "closed", Exception())
            raise Refused(status, "es_rejected_execution_exception" if status == 429 else "exception")
        index, _, operation = unquote(path).strip("/").rpartition("/")
        if not operation.startswith("_"):
            index, operation = operation, ""
        data = gunzipped(body) if body else b""
        if len(data) > MAX_REQUEST_BYTES:
            raise Refused(413, "content_too_long")
        lines = [json.loads(line) for line in data.splitlines()]
        validate(f"{method} {'/{index}' * bool(index)}{f'/{operation}' * bool(operation)}", params, lines)
        response = getattr(self, f"_{method.lower()}{operation}")(index, params, lines)
        return copy.deepcopy(response)

    def _index(self, name: str) -> Index:
        names = self.aliases.get(name, {name} & self.indexes.keys())
        if not names:
            raise Refused(404, "index_not_found_exception")
        (only,) = names
        return self.indexes[only]

    def _put(self, name: str, _: Any, lines: Sequence[Any]) -> Any:
        if name in self.indexes:
            raise Refused(400, "resource_already_exists_exception")
        self.indexes[name] = Index(lines[0]["mappings"])
        for alias in lines[0].get("aliases", {}):
            self.aliases.setdefault(alias, set()).add(name)
        return {"acknowledged": True}

    def _delete(self, name: str, *_: Any) -> Any:
        self._index(name)
        del self.indexes[name]
        for alias, names in [*self.aliases.items()]:
            if not names - {name}:
                del self.aliases[alias]
            names.discard(name)
        return {"acknowledged": True}

    def _get_alias(self, pattern: str, *_: Any) -> Any:
        names = [name for name in self.indexes if name.startswith(pattern.removesuffix("*"))]
        return {name: {"aliases": {alias: {} for alias, of in self.aliases.items() if name in of}} for name in names}

    def _post_aliases(self, _: str, __: Any, lines: Sequence[Any]) -> Any:
        for action in lines[0]["actions"]:
            self.aliases.setdefault(action["add"]["alias"], set()).add(action["add"]["index"])
        return {"acknowledged": True}

    def _post_refresh(self, name: str, *_: Any) -> Any:
        self._index(name).refresh()
        return {"_shards": {"total": 1, "successful": 1, "failed": 0}}

    def _post_count(self, name: str, *_: Any) -> Any:
        return {"count": len(self._index(name).visible)}

    def _post_bulk(self, name: str, params: Mapping[str, Any], lines: Sequence[Any]) -> Any:
        """Apply a bulk request. Creates a missing index, unless the request requires an alias.

        https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
        """
        rest, items = iter(lines), []
        if params.get("require_alias") == "true" and name not in self.aliases:
            missing = {"status": 404, "error": {"type": "index_not_found_exception"}}
            return {"items": [{action: missing} for line in lines for action in line.keys() & {"index", "delete"}]}
        index = self._index(name) if name in self.aliases else self.indexes.setdefault(name, Index({}))
        for line in rest:
            ((action, details),) = line.items()
            source = None if action == "delete" else next(rest)
            status = self.item_faults.pop(0) if self.item_faults else 0
            kind: str | None = ITEM_ERRORS.get(status, "es_rejected_execution_exception")
            if not status:
                status, kind = index.write(action, details, source)
            items.append({action: {"status": status, **({"error": {"type": kind}} if kind else {})}})
        return {"items": items}

    def _post_mget(self, name: str, params: Mapping[str, Any], lines: Sequence[Any]) -> Any:
        index, included = self._index(name), params["_source_includes"].split(",")
        return {
            "docs": [
                {"_id": id_, "found": True, "_source": index.source_of(id_, included)}
                if id_ in index.latest
                else {"_id": id_, "found": False}
                for id_ in lines[0]["ids"]
            ]
        }

    def _post_search(self, name: str, _: Any, lines: Sequence[Any]) -> Any:
        index, (body,) = self._index(name), lines
        scores = index.matches(body["query"])
        found: list[dict[str, Any]] = [
            {"_id": id_, "_version": index.visible_versions[id_], "sort": self._sort_values(index, id_, score, body)}
            for id_, score in scores.items()
        ]
        for at, order in reversed([*enumerate(body.get("sort", ()))]):
            ((_, options),) = order.items()
            found.sort(key=lambda hit: hit["sort"][at], reverse=options["order"] == "desc")
        return {
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {"total": {"value": len(scores), "relation": "eq"}, "hits": found[: body["size"]]},
            "aggregations": {
                label: self._aggregated(index, set(scores), wanted) for label, wanted in body.get("aggs", {}).items()
            },
        }

    @staticmethod
    def _sort_values(index: Index, document_id: str, score: float, body: Mapping[str, Any]) -> list[Any]:
        names = [name for order in body.get("sort", ()) for name in order]
        return [score if name == "_score" else index.visible[document_id][name] for name in names]

    @staticmethod
    def _aggregated(index: Index, ids: set[str], wanted: Mapping[str, Any]) -> Any:
        ((kind, options),) = wanted.items()
        if kind == "filters":
            filters = options["filters"].items()
            return {"buckets": {name: {"doc_count": len(ids & index.matches(query).keys())} for name, query in filters}}
        counts = Counter({term: len(ids & of) for term, of in index.terms[options["field"]].items()})
        values = sorted(
            ((term, count) for term, count in counts.items() if count), key=lambda pair: (-pair[1], pair[0])
        )
        return {"buckets": [{"key": term, "doc_count": count} for term, count in values[: options["size"]]]}


def gunzipped(body: bytes) -> bytes:
    """Return a body, decompressed if it is gzip."""
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


@cache
def _validator(operation: str) -> tuple[frozenset[str], Any]:
    described = API["operations"][operation]
    schema = {**described["body"], "$defs": API["$defs"]}
    return frozenset(described["parameters"]), jsonschema_rs.validator_for(schema)


def validate(operation: str, params: Mapping[str, Any], lines: Sequence[Any]) -> None:
    """Assert that a request conforms to OpenSearch's API specification. Each line of a bulk request is a body.

    Documents of bulk requests have no schema: the mapping of the index checks their fields.
    """
    permitted, validator = _validator(operation)
    assert params.keys() <= permitted, (operation, params)
    bodies = [line for line in lines if line.keys() <= {"index", "delete"}] if operation.endswith("_bulk") else lines
    for body in bodies:
        validator.validate(body)
