"""Conformance of the search engines: Tantivy and OpenSearch find the same videos, in the same order.

By default, tests/opensearch.py simulates OpenSearch in memory; its docstring lists the differences. This command also
runs the suite on a cluster, in separate indexes. The suite deletes these indexes:

    OPENSEARCH_URL=http://localhost:9200 python -m pytest tests/unit/test_search_conformance.py
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from shared.core.caller import Caller
from shared.feed.log import LogCursor, shard_logs
from shared.search.document import VideoDocument
from shared.search.engine import Hit, IndexCheckpoint, IndexWriter, SearchHits
from shared.search.highlights import Highlighter
from shared.search.index_query import SearchFilters
from shared.search.opensearch_engine import OpenSearchEngine, create_index, make_client
from shared.search.query_parser import SearchQuery, parse
from shared.search.stored import StoredFields
from shared.search.tantivy_engine import TantivyEngine
from tests.opensearch import Cluster
from tests.unit.search_catalogue import (
    ALICE,
    ANONYMOUS,
    BOB,
    CATALOGUE,
    CUES,
    KEYS,
    NOW,
    ROOT,
    make_document,
    video_id,
)

Engines = Callable[[], IndexWriter]
_positions = count(1)


def put(engine: IndexWriter, *documents: VideoDocument, deleted_ids: tuple[str, ...] = ()) -> None:
    """Index the documents at a position after all earlier documents, and commit."""
    cursors = dict.fromkeys(shard_logs(), LogCursor(next(_positions), 0))
    engine.put(documents, deleted_ids, cursors)
    engine.commit(IndexCheckpoint(cursors, as_of=NOW * 1000))


@pytest.fixture(scope="module", params=["embedded", "opensearch"])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Return a function that creates an empty index of one engine."""
    created: list[IndexWriter] = []
    client = make_client(url) if (url := os.environ.get("OPENSEARCH_URL")) else Cluster().client()

    def new() -> IndexWriter:
        if request.param == "embedded":
            created.append(TantivyEngine(tmp_path_factory.mktemp("index")))
        else:
            index = f"videos-test-{uuid4().hex}"
            create_index(client, index)
            created.append(OpenSearchEngine(client, index))
        return created[-1]

    yield new
    for engine in created:
        engine.close()
        if isinstance(engine, OpenSearchEngine):
            client.indices.delete(index=engine.index)


@pytest.fixture
def engine(engines: Engines) -> IndexWriter:
    """Return an empty index."""
    return engines()


@pytest.fixture(scope="module")
def catalogue(engines: Engines) -> IndexWriter:
    """Return an index with the videos of the catalogue. Tests do not change it."""
    engine = engines()
    put(engine, *CATALOGUE.values())
    return engine


def found(
    engine: IndexWriter,
    q: str,
    caller: Caller = ANONYMOUS,
    filters: SearchFilters = SearchFilters(),  # noqa: B008
) -> str:
    """Return the keys of the hits, best first, with ` > ` between hits of different scores."""
    query = parse(q) if q else SearchQuery()
    classes: list[tuple[float, set[str]]] = []
    for hit in engine.search(query, caller, NOW, filters=filters, limit=100).hits:
        if not classes or classes[-1][0] != hit.score:
            classes.append((hit.score, set()))
        classes[-1][1].add(
            KEYS[hit.video_id].rstrip("0123456789") if "common" in KEYS[hit.video_id] else KEYS[hit.video_id]
        )
    return " > ".join(" ".join(sorted(keys)) for _, keys in classes)


def ids(hits: SearchHits) -> list[str]:
    """Return the video ids of a page."""
    return [hit.video_id for hit in hits.hits]


def titles(engine: IndexWriter, q: str) -> list[str]:
    """Return the titles that an anonymous user finds, best match first."""
    hits = engine.search(parse(q), ANONYMOUS, NOW)
    return [stored.title for stored in engine.stored(ids(hits)) if stored]


# Words: each query of an anonymous caller with the videos that it finds.

QUESTIONS = (
    ("crouching tiger", "tiger"),
    ("tiger crouching", "tiger"),
    ("croching tigre ", "tiger"),
    ("crouc", "tiger"),
    ("crouchng ti", "tiger"),
    ("crouching lion", ""),
    ("crouc tiger", ""),
    ('"crouching tiger"', "tiger"),
    ('"tiger crouching"', ""),
    ('"tiger hidden"', "tiger"),
    ("tiger -dragon", ""),
    ("tiger -drago", "tiger"),
    ("Mädchen", "tiger"),
    ("madchen", "tiger"),
    ("臥虎", "tiger"),
    ("虎藏", "tiger"),
    ("龍", "tiger"),
    ("虎臥", ""),
    ('"Chow Yun-Fat"', "tiger"),
    ("yunfat", "tiger"),
    ('"fat michelle"', ""),
    ("force with", "mixed tiger"),
    ('"force be with"', "tiger"),
    ('"you möge"', ""),
    ("moge", "aliens > tiger"),
    ("wuxia", "tiger"),
    ("quasar ", "titled > named > tagged > described > said"),
    ("quasar", "titled > named > tagged > described > said"),
    ("quasa", "titled > described named said tagged"),
    ("quasr ", "titled > described named said tagged"),
    ("quazar", "titled > described named said tagged"),
    ("qusar ", "titled > described named said tagged"),
    ("quasat ", "titled > described named said tagged"),
    ("a quasar", "said"),
    ("quasar -titled", "titled > named > tagged > described > said"),
    ("-b quasar", "titled > named > tagged > said"),
    ("quasar one", "described"),
    ('"one quasar"', "described"),
    ('"quasar one"', ""),
    ("heat", "heat > red > night > heated > heart"),
    ("heat ", "heat > red > night > heart"),
    ("haet", "heat > red > night"),
    ("haet ", "heat > red > night"),
    ("hea", "heat > heart heated > red > night"),
    ("hea ", "heat > red > night"),
    ("heatd ", "heat heated > red > night"),
    ("heaters ", ""),
    ("heater ", "heated"),
    ("het ", "heat > red > night"),
    ("hat ", "heat > red > night"),
    ("hea -heat", ""),
    ("red heat", "red"),
    ("red heat ", "red"),
    ("heat red", "red"),
    ("heat night", "night"),
    ("the big heat of the night", "night"),
    ("big night", "night"),
    ("bih nigth ", ""),
    ("bg ", ""),
    ("bigg ", "night"),
    ("may the force be with you", "tiger > mixed"),
    ("may the force be with you ", "tiger > mixed"),
    ("force be with you may", "mixed tiger"),
    ("the force may", "mixed > tiger"),
    ('"with you"', "mixed tiger"),
    ('"be with"', "mixed tiger"),
    ('"may the"', "tiger"),
    ("it was so so new ", "sosonew > new1 new2"),
    ("so new it was", "new1 new2 > sosonew"),
    ("so new", "new1 new2 sosonew"),
    ('"so so new"', "sosonew"),
    ('"so new it"', "new1 new2"),
    ("new it", "new1 new2 > sosonew"),
    ("spiderman", "spider"),
    ("spider", "spider"),
    ("spider-man", "spider"),
    ("spider man", "spider"),
    ('"spider man"', "spider"),
    ("spidr man ", "spider"),
    ("spider -man", ""),
    ("usa", "harbour1 harbour2 > spider"),
    ("u.s.a.", "spider"),
    ('"u s a"', "spider"),
    ("u s a", "spider"),
    ("ohara", "hara"),
    ("o'hara", "hara"),
    ("hara", "hara"),
    ("rock'n'roll", "hara"),
    ("rock n roll", "hara"),
    ("rock", "hara"),
    ("dont", "hara"),
    ("don't", "hara"),
    ("don’t stop", "hara"),
    ("don stop", "hara"),
    ("strasse", "street"),
    ("straße", "street"),
    ("STRASSE", "street"),
    ("strase ", "street"),
    ("die strasse", "street"),
    ("arger", "street"),
    ("Ärger", "street"),
    ("smorrebrod", "street"),
    ("smorrebrød ", "street"),
    ("lodz", "street"),
    ("łódź", "street"),
    ("oeuvre", "street"),
    ("œuvre", "street"),
    ("creme brulee", "creme"),
    ("crème brûlée", "creme"),
    ("cremé brulée", "creme"),
    ("creme brule", "creme"),
    ("cream brulee ", ""),
    ("creme bruleee ", "creme"),
    ("terminator", "terminator > termination"),
    ("terminatr ", "terminator"),
    ("termnator ", "terminator"),
    ("termintr ", "terminator"),
    ("termnatr", "terminator"),
    ("terminat", "terminator > termination"),
    ("termina", "termination terminator"),
    ("termnat", "termination terminator"),
    ("termination ", "termination > terminator"),
    ("terminatoin ", "termination terminator"),
    ("terminatio ", "termination terminator"),
    ("trminator ", "terminator"),
    ("erminator ", "terminator"),
    ("terminators ", "terminator"),
    ("xterminator ", "terminator"),
    ("terminaator", "terminator"),
    ("2001", "space"),
    ("2001 ", "space"),
    ("201", "contact"),
    ("20", "contact space"),
    ("2 ", ""),
    ("2011 ", ""),
    ("abc", "wide"),
    ("ABC iv", "wide"),
    ("fin", "wide > aliens > alien"),
    ("ﬁn", "wide > aliens > alien"),
    ("bat jet", "jet"),
    ("ba jet", ""),
    ("jt ", ""),
    ("jets ", "jet"),
    ("jet", "jet"),
    ("ba ", ""),
    ("bat", "jet"),
    ("東京", "tokyo"),
    ("東京物語", "tokyo"),
    ("京物", "tokyo"),
    ("物語", "tokyo"),
    ("語", "tokyo"),
    ("東", "tokyo"),
    ("東物", ""),
    ("東京 物語", "tokyo"),
    ('"東京 物語"', ""),
    ('"東京物"', "tokyo"),
    ("猫", "cat"),
    ("第3話", "cat"),
    ("第", "cat"),
    ("3", "cat"),
    ("話", "cat"),
    ("コーヒー", "cat"),
    ("ーヒ", "cat"),
    ("コー", "cat"),
    ("기생충", "parasite"),
    ("기생", "parasite"),
    ("생", "parasite"),
    ("ночной", "train"),
    ("Ночной поезд", "train"),
    ("ночнои", "train"),
    ("елка", "train"),
    ("ёлка", "train"),
    ("поез", "train"),
    ("поезт ", "train"),
    ("οδυσσευσ", "odyssey"),
    ("Ὀδυσσεύς", "odyssey"),
    ("οδυσσ", "odyssey"),
    ("शोले", "sholay"),
    ("हिन्दी", "sholay"),
    ("שלום", "shalom"),
    ("שָׁלוֹם", "shalom"),
    ("ฉลาด", "thai"),
    ("เกมส์", "thai"),
    ("โกง", "thai"),
    ("harbour", "harbour1 harbour2 harbour3"),
    ("harbor ", "harbour1 harbour2 harbour3"),
    ("harbour one", "harbour1"),
    ("harbour -one", "harbour2 harbour3"),
    ("neo noir", "harbour1"),
    ("noir", "harbour1"),
    ('"neo noir"', "harbour1"),
    ('"noir usa"', ""),
    ("crew ship", "alien"),
    ("creature", "alien aliens"),
    ('marines "find more"', "aliens"),
    ("space horror", "alien aliens"),
    ("alien", "alien > aliens"),
    ("aliens", "aliens > alien"),
    ("alien -horror", ""),
    ("alien space -marines", "alien"),
    ("a day", "common"),
    ('"day of a life"', "common"),
    ('"life of a day"', ""),
    ("others", "common"),
    ("crime others", "common"),
    ("lion lantern", ""),
    ("title:heat", ""),
    ("heat OR red", ""),
    ("heat AND red", ""),
    ("he*t", ""),
    ("/heat/", "heat > red > night > heated > heart"),
    ("heat~2", ""),
    ('"heat', "heat > red > night"),
    ('"red he', "red"),
    ('heat"', "heat > red > night > heart"),
    ("-heat red", ""),
    ("- heat", "heat > red > night > heated > heart"),
    ("--heat red", ""),
    ("heat -red -night", "heat > heart"),
    ("(heat)", "heat > red > night > heated > heart"),
    ("[heat TO red]", ""),
    ("heat^9", ""),
    ("heat\\\\", "heat > red > night > heated > heart"),
    ("a~9 b~2 c~99", ""),
    ("the of and to in is it", ""),
    ('"the the the"', ""),
)
"""Queries and their hits. Hits before ` > ` have higher scores than the hits after it."""


def test_queries_find_the_expected_videos_in_order(catalogue: IndexWriter) -> None:
    assert {q: found(catalogue, q) for q, _ in QUESTIONS} == dict(QUESTIONS)


def test_engines_compute_the_same_scores(catalogue: IndexWriter, tmp_path: Path) -> None:
    tantivy = TantivyEngine(tmp_path)
    put(tantivy, *CATALOGUE.values())

    def scores(engine: IndexWriter, q: str) -> dict[str, float]:
        return {KEYS[hit.video_id]: hit.score for hit in engine.search(parse(q), ALICE, NOW, limit=100).hits}

    for q, _ in QUESTIONS[::4]:
        assert scores(catalogue, q) == scores(tantivy, q), q
    tantivy.close()


HOSTILE = [
    " ".join(f"terminatr{letter}" for letter in "abcdefghijklmnopqrst"),
    "a " * 120,
    "z" * 256,
    "é" * 256,
    "terminatorterminatorterminatorterminator",
    "-".join("ab" for _ in range(32)),
    '"' + "the " * 60 + '"',
    '\\" ) ( ] [ } { /.*/ x',
    "東" * 256,
    "\U0001f3ac\u200d\u202e\ufeff x",
]


def test_hostile_queries_are_handled_like_any_query(catalogue: IndexWriter) -> None:
    for q in HOSTILE:
        hits = catalogue.search(parse(q), ANONYMOUS, NOW, facets=["category", "tag", "year"], limit=100)
        assert len(hits.hits) == hits.total, q


# Filters, facets and visibility

FILTERS: list[tuple[str, dict[str, Any], str]] = [
    ("harbour", {"category": "Drama"}, "harbour1"),
    ("harbour", {"tag": "  NEO  noir"}, "harbour1"),
    ("harbour", {"tag": "neo"}, "harbour2"),
    ("harbour", {"tag": "usa"}, "harbour1 harbour2"),
    ("harbour", {"language": "EN"}, "harbour1 harbour2"),
    ("harbour", {"language": "en-nz"}, "harbour1"),
    ("harbour", {"user_id": "bob"}, "harbour2"),
    ("harbour", {"created_from": 200, "created_before": NOW - 999}, "harbour2 harbour3"),
    ("harbour", {"created_before": 200}, "harbour1"),
    ("harbour", {"created_from": 100, "created_before": 300}, "harbour1 harbour2"),
    ("harbour", {"category": "Drama", "tag": "neo"}, ""),
    ("one", {"language": "en"}, "harbour1"),
    ("", {"created_before": NOW - 999}, "harbour3 > harbour2 > harbour1"),
    ("", {"language": "eng"}, "harbour3"),
]
EVERYONE = "expiring lantern published purging"
HIDDEN = f"expired {EVERYONE.replace('published', 'private published')} scheduled"
CALLERS: list[tuple[Caller, str | None, str]] = [
    (ANONYMOUS, None, EVERYONE),
    (BOB, None, EVERYONE),
    (BOB, "alice", "lantern"),
    (ALICE, None, HIDDEN),
    (ALICE, "alice", "expired lantern private scheduled"),
    (ALICE, "bob", "expiring published purging"),
    # Admins see all videos of an owner whom they name, and otherwise public videos, as in lists.
    (ROOT, None, EVERYONE),
    (ROOT, "alice", "expired lantern private scheduled"),
]


def keys_of(engine: IndexWriter, q: str, caller: Caller = ANONYMOUS, **filters: Any) -> str:
    """Return the sorted keys of the hits."""
    hits = engine.search(parse(q), caller, NOW, filters=SearchFilters(**filters), limit=100)
    assert len(hits.hits) == hits.total
    return " ".join(sorted(KEYS[hit.video_id] for hit in hits.hits))


def test_filters_are_combined_with_and(catalogue: IndexWriter) -> None:
    for q, filters, expected in FILTERS:
        hits = catalogue.search(parse(q) if q else SearchQuery(), ANONYMOUS, NOW, filters=SearchFilters(**filters))
        keys = [KEYS[id_] for id_ in ids(hits)]
        assert keys == expected.split(" > ") if " > " in expected else sorted(keys) == expected.split(), filters


def test_hidden_videos_are_found_only_by_their_owner_and_by_admins_with_owner_filter(catalogue: IndexWriter) -> None:
    for caller, owner, expected in CALLERS:
        assert keys_of(catalogue, "lantern ", caller, user_id=owner) == expected, (caller, owner)


def test_video_past_its_purge_time_is_found_by_no_caller(catalogue: IndexWriter) -> None:
    for caller, owner in ((ANONYMOUS, None), (ALICE, "alice"), (ROOT, "alice")):
        assert "purged" not in keys_of(catalogue, "lantern ", caller, user_id=owner).split()


def test_facets_count_visible_hits_of_all_pages(catalogue: IndexWriter) -> None:
    def facets(q: str, caller: Caller = ANONYMOUS) -> Any:
        hits = catalogue.search(parse(q), caller, NOW, facets=("category", "tag", "year"), limit=1)
        return hits.total, hits.facets

    assert facets("harbour") == (
        3,
        {
            "category": [("Drama", 1), ("drama", 1)],
            "tag": [("usa", 2), ("neo", 1), ("neo noir", 1)],
            "year": [(1995, 2), (-5, 1)],
        },
    )
    assert facets("lantern") == (4, {"category": [], "tag": [], "year": []})
    assert facets("lantern", ALICE) == (7, {"category": [("Secret", 1)], "tag": [], "year": []})
    assert facets("nothing") == (0, {"category": [], "tag": [], "year": []})


def test_query_without_words_lists_newest_first(catalogue: IndexWriter) -> None:
    hits = catalogue.search(SearchQuery(), ANONYMOUS, NOW, limit=100)
    created = [CATALOGUE[KEYS[id_]].created_at for id_ in ids(hits)]
    assert created == sorted(created, reverse=True)
    assert hits.total == len(created) == len(CATALOGUE) - 5


# Pages


def test_pages_contain_every_hit_once_and_in_order(catalogue: IndexWriter) -> None:
    for query in (parse("others"), parse("heat"), SearchQuery()):
        every = catalogue.search(query, ANONYMOUS, NOW, limit=100)
        hits: list[Hit] = []
        while True:
            page = catalogue.search(query, ANONYMOUS, NOW, limit=7, after=hits[-1] if hits else None)
            hits += page.hits
            assert page.total == every.total
            if not page.more:
                break
        assert hits == list(every.hits)


def test_excluded_videos_are_absent_from_hits_totals_and_facets(catalogue: IndexWriter) -> None:
    out = [video_id(9999), CATALOGUE["harbour1"].video_id]
    hits = catalogue.search(parse("harbour"), ANONYMOUS, NOW, facets=["tag"], without=out)
    assert ([KEYS[id_] for id_ in sorted(ids(hits))], hits.total) == (
        sorted(("harbour2", "harbour3"), key=lambda key: CATALOGUE[key].video_id),
        2,
    )
    assert hits.facets == {"tag": [("neo", 1), ("usa", 1)]}


def test_page_continues_after_the_current_rank_of_its_cursor(engine: IndexWriter) -> None:
    documents = {document.video_id: document for document in (make_document(number, "Heat") for number in range(8))}
    put(engine, *documents.values())
    every = ids(engine.search(parse("heat"), ANONYMOUS, NOW))
    last = engine.search(parse("heat"), ANONYMOUS, NOW, limit=4).hits[-1]
    put(engine, replace(documents[last.video_id], tags=["Heat"]))
    # The changed video now ranks first, so all other videos follow it.
    following = ids(engine.search(parse("heat"), ANONYMOUS, NOW, after=last))
    assert following == [id_ for id_ in every if id_ != last.video_id]


def test_page_continues_after_a_removed_hit(engine: IndexWriter) -> None:
    put(engine, *(make_document(number, "Heat") for number in range(8)))
    every = ids(engine.search(parse("heat"), ANONYMOUS, NOW))
    first = engine.search(parse("heat"), ANONYMOUS, NOW, limit=4)
    put(engine, deleted_ids=(first.hits[-1].video_id,))
    assert ids(engine.search(parse("heat"), ANONYMOUS, NOW, after=first.hits[-1])) == every[4:]


# Changes


def test_changes_are_found_after_their_commit(engine: IndexWriter) -> None:
    put(engine, make_document(1, "The Matrix"), make_document(2, "Heat"))
    cursors = dict.fromkeys(shard_logs(), LogCursor(next(_positions), 0))
    engine.put([make_document(1, "Matrix Reloaded")], [video_id(2), video_id(9)], cursors)
    assert titles(engine, "matrix") == ["The Matrix"]
    checkpoint = IndexCheckpoint(cursors, as_of=NOW * 1000)
    engine.commit(checkpoint)
    assert (titles(engine, "matrix"), titles(engine, "heat")) == (["Matrix Reloaded"], [])
    assert (engine.size, engine.checkpoint) == (1, checkpoint)
    assert next(engine.stored([video_id(2)])) is None


def test_ids_need_not_be_uuids(engine: IndexWriter) -> None:
    put(engine, make_document(title="Heat", video_id="v-1"), make_document(2, "Heat", video_id=video_id(2).upper()))
    assert set(ids(engine.search(parse("heat"), ANONYMOUS, NOW))) == {"v-1", video_id(2).upper()}


# Texts


def test_stored_texts_and_cues_have_their_original_spelling(catalogue: IndexWriter) -> None:
    for key in ("tiger", "creme", "wordless", "harbour1"):
        assert next(catalogue.stored([CATALOGUE[key].video_id])) == StoredFields.of(CATALOGUE[key])


def test_quote_has_the_start_of_its_cue(catalogue: IndexWriter) -> None:
    (stored,) = catalogue.stored([CATALOGUE["tiger"].video_id])
    assert stored
    quote = Highlighter(parse('"force be with"')).of(stored).quote
    assert quote
    assert (quote.language, quote.start, quote.text) == ("en", CUES["en"][0][0], "May the force be with you.")


def test_stored_texts_are_omitted_when_captions_are_large(engine: IndexWriter) -> None:
    put(engine, make_document(1, captions={"en": [(0, "apples"), (1, "pears")]}), make_document(2))
    large, small = engine.stored([video_id(1), video_id(2)])
    assert large
    assert large.caption_length == len("apples pears ")
    assert list(engine.stored([video_id(1), video_id(2)], max_characters=12)) == [None, small]
    assert list(engine.stored([video_id(1), video_id(2)], max_characters=13)) == [large, small]
    assert list(engine.stored([video_id(1)] * 2, max_characters=25)) == [large, None]


# Similar videos


def similar(engine: IndexWriter, key: str, caller: Caller = ANONYMOUS) -> list[str]:
    """Return the keys of similar videos, most similar first."""
    return [KEYS[hit.video_id] for hit in engine.similar(CATALOGUE[key].video_id, caller, NOW) or ()]


def test_similar_videos_have_rare_words_in_common(catalogue: IndexWriter) -> None:
    assert similar(catalogue, "alien")[:2] == ["aliens", "horizon"]
    assert "secret" not in similar(catalogue, "alien")
    assert "secret" in similar(catalogue, "alien", BOB)
    assert len(catalogue.similar(CATALOGUE["alien"].video_id, BOB, NOW, limit=1) or ()) == 1
    assert catalogue.similar(video_id(9999), ANONYMOUS, NOW) is None
    assert similar(catalogue, "wordless") == []


def test_similarity_prefers_words_frequent_in_one_video_and_rare_in_others(engine: IndexWriter) -> None:
    common = " ".join(f"common{number}" for number in range(30))
    put(
        engine,
        make_document(1, "A", captions={"en": [(0, f"{common} rabbits rabbits rabbits")]}),
        make_document(2, "B", captions={"en": [(0, "rabbits")]}),
        *(make_document(number, "C", captions={"en": [(0, common)]}) for number in range(10, 40)),
    )
    assert [hit.video_id for hit in engine.similar(video_id(1), ANONYMOUS, NOW) or ()] == [video_id(2)]
