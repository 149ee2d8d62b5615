"""The embedded engine: its files, its ranks, and a comparison with a scan of all videos.

tests/unit/test_search_conformance.py tests the results of both engines.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.captions.cues import Cue
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import InvalidParameter
from shared.feed.log import LogCursor
from shared.search.document import FORM, VideoDocument, build_document
from shared.search.engine import DEEPEST, Hit, IncompatibleIndex, IndexCheckpoint, SearchHits
from shared.search.index_query import GRAIN, IndexQuery, SearchFilters
from shared.search.query_parser import Clause, QueryWord, SearchQuery, parse
from shared.search.tantivy_engine import _SLACK, MARK, TantivyEngine, compiled
from shared.search.tokenizer import joined, tokens, words
from shared.videos.tags import normalise_tag
from tests.indexed import stored_in
from tests.unit.search_catalogue import ALICE, ANONYMOUS, BOB, NOW, ROOT, make_document, video_id

AT = IndexCheckpoint({"CHANGES#0": LogCursor(7, 0)}, as_of=NOW * 1000)

FACETS = ("category", "tag", "year")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[TantivyEngine]:
    engine = TantivyEngine(tmp_path / "index")
    yield engine
    engine.close()


def put(engine: TantivyEngine, *documents: VideoDocument) -> None:
    """Index the documents, and commit."""
    engine.put(documents)
    engine.commit(AT)


def copied(folder: Path, to: Path) -> Path:
    """Copy the files that a process would leave if it ended now. Ignore temporary files, which Tantivy's threads may be
    renaming."""
    return shutil.copytree(folder, to, ignore=shutil.ignore_patterns(".tmp*"))


def ids(hits: SearchHits) -> list[str]:
    """Return the video ids of a page."""
    return [hit.video_id for hit in hits.hits]


def titles(engine: TantivyEngine, q: str) -> list[str]:
    """Return the titles that an anonymous user finds, best match first."""
    hits = engine.search(parse(q), ANONYMOUS, NOW)
    return [stored.title for id_ in ids(hits) if (stored := stored_in(engine, id_))]


# Putting and committing documents


def test_checkpoint_can_be_stored_without_documents(engine: TantivyEngine, tmp_path: Path) -> None:
    put(engine, make_document())
    before = engine.files()
    engine.commit(IndexCheckpoint({"CHANGES#0": LogCursor(8, 0)}, as_of=NOW * 1000 + 5))
    assert [file for file in engine.files() if file.is_immutable] == [file for file in before if file.is_immutable]
    assert TantivyEngine(tmp_path / "index").checkpoint == IndexCheckpoint(
        {"CHANGES#0": LogCursor(8, 0)}, as_of=NOW * 1000 + 5
    )


def test_reopened_index_has_the_same_content(tmp_path: Path) -> None:
    engine = TantivyEngine(tmp_path)
    put(engine, make_document(title="The Matrix"))
    engine.put([make_document(2, "Heat")])
    engine.close()
    engine = TantivyEngine(tmp_path)
    assert (engine.checkpoint, engine.size) == (AT, 1)
    put(engine, make_document(2, "Heat"))
    assert titles(engine, "heat") == ["Heat"]
    engine.close()


def test_crash_before_commit_leaves_the_index_unchanged(engine: TantivyEngine, tmp_path: Path) -> None:
    put(engine, *(make_document(number, f"Film {number}") for number in range(20)))
    engine.put([make_document(number, f"Other {number}") for number in range(10, 30)], deleted_ids=[video_id(0)])
    copy = copied(tmp_path / "index", tmp_path / "left")
    hits = TantivyEngine(copy)
    assert (hits.size, hits.checkpoint) == (20, AT)
    assert titles(hits, "other") == []
    put(hits, make_document(40, "Other 40"))
    assert titles(hits, "other") == ["Other 40"]
    hits.close()


def test_crash_before_the_checkpoint_repeats_the_put(
    engine: TantivyEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(engine, make_document(1, "The Matrix"))
    engine.put([make_document(2, "Heat")], deleted_ids=[video_id(1)])
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            engine.commit(replace(AT, as_of=1))
    engine.close()
    reopened = TantivyEngine(tmp_path / "index")
    assert reopened.checkpoint == AT
    reopened.put([make_document(2, "Heat")], deleted_ids=[video_id(1)])
    reopened.commit(replace(AT, as_of=1))
    assert (reopened.size, titles(reopened, "heat"), titles(reopened, "matrix")) == (1, ["Heat"], [])
    reopened.close()


def test_second_writer_on_the_same_folder_is_refused(engine: TantivyEngine, tmp_path: Path) -> None:
    put(engine, make_document(title="The Matrix"))
    other = TantivyEngine(tmp_path / "index")
    assert titles(other, "matrix") == ["The Matrix"]
    with pytest.raises(ValueError, match="LockBusy"):
        other.put([make_document()])


def test_index_of_another_format_is_not_opened(tmp_path: Path) -> None:
    engine = TantivyEngine(tmp_path / "older")
    put(engine, make_document())
    engine.close()
    mark = tmp_path / "older" / MARK
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"form": FORM - 1}))
    with pytest.raises(IncompatibleIndex, match=f"has the format version {FORM - 1}, but this release requires {FORM}"):
        TantivyEngine(tmp_path / "older")

    (tmp_path / "other").mkdir()
    tantivy.Index(tantivy.SchemaBuilder().add_text_field("title").build(), path=str(tmp_path / "other"))
    with pytest.raises(IncompatibleIndex, match="schema does not match"):
        TantivyEngine(tmp_path / "other")


def test_incomplete_copy_is_not_opened(engine: TantivyEngine, tmp_path: Path) -> None:
    put(engine, make_document())
    missing = next(file.name for file in engine.files() if file.name.endswith(".term"))
    copy = copied(tmp_path / "index", tmp_path / "copy")
    (copy / missing).unlink()
    with pytest.raises(IncompatibleIndex):
        TantivyEngine(copy)


def test_listed_files_are_the_complete_index(engine: TantivyEngine, tmp_path: Path) -> None:
    put(engine, *(make_document(number, f"Film {number}") for number in range(5)))
    put(engine, make_document(6, "Heat"))
    engine.put([], deleted_ids=[video_id(1)])
    engine.commit(AT)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in engine.files():
        shutil.copy(tmp_path / "index" / file.name, copy)
        assert (copy / file.name).stat().st_size == file.size
    copied = TantivyEngine(copy)
    assert (copied.checkpoint, copied.size) == (AT, 5)
    assert titles(copied, "heat") == ["Heat"]
    put(copied, make_document(7, "Heat 2"))
    assert sorted(titles(copied, "heat")) == ["Heat", "Heat 2"]
    copied.close()


@pytest.mark.slow
def test_immutable_files_keep_their_content_and_merges_bound_their_number(
    engine: TantivyEngine, tmp_path: Path
) -> None:
    contents: dict[str, bytes] = {}
    for number in range(20):
        put(engine, make_document(number), make_document(number + 1, "Again"))
        for file in engine.files():
            content = (tmp_path / "index" / file.name).read_bytes()
            assert not file.is_immutable or contents.setdefault(file.name, content) == content
    assert len(engine.files()) < 100


# Pages


def pages(engine: TantivyEngine, query: SearchQuery, caller: Caller, limit: int) -> Iterator[SearchHits]:
    """Yield all pages. Each begins after the last hit of the previous page."""
    page = engine.search(query, caller, NOW, limit=limit)
    yield page
    while page.more:
        page = engine.search(query, caller, NOW, limit=limit, after=page.hits[-1])
        yield page


def test_pages_follow_each_other_without_gaps_down_to_the_deepest_hit(engine: TantivyEngine) -> None:
    put(engine, *(make_document(number, "Heat") for number in range(DEEPEST + 50)))
    for query in (parse("heat"), SearchQuery()):
        hits = [hit for page in pages(engine, query, ANONYMOUS, 300) for hit in page.hits]
        assert len({hit.video_id for hit in hits}) == len(hits) == DEEPEST
        assert hits == sorted(hits, key=lambda hit: (-hit.rank, hit.video_id))
        assert engine.search(query, ANONYMOUS, NOW).total == DEEPEST + 50


def test_hits_of_equal_score_are_ordered_by_id(engine: TantivyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.search.tantivy_fields._SPREAD", 0.0)
    put(engine, *(make_document(number, "Heat") for number in range(200)))
    hits = [hit for page in pages(engine, parse("heat"), ANONYMOUS, 7) for hit in page.hits]
    assert len({hit.rank for hit in hits}) == 1
    assert [hit.video_id for hit in hits] == sorted(video_id(number) for number in range(200))


@pytest.mark.slow
def test_few_of_many_equal_hits_have_one_rank(engine: TantivyEngine) -> None:
    put(engine, *(make_document(number, "Heat") for number in range(20_000)))
    index_query = IndexQuery(parse("heat"), ANONYMOUS, NOW, SearchFilters())
    ranks = [
        rank for rank, _ in engine._searcher.search(compiled(index_query.query), 20_000, weight_by_field="spread").hits
    ]
    # The reader's extra hits include the end of the page, so no second search is needed.
    assert max(Counter(ranks).values()) < _SLACK
    hits = engine.search(parse("heat"), ANONYMOUS, NOW, limit=100)
    assert (len(hits.hits), hits.total, hits.more) == (100, 20_000, True)
    assert len({hit.score for hit in hits.hits}) == 1
    following = engine.search(parse("heat"), ANONYMOUS, NOW, limit=100, after=hits.hits[-1])
    every = engine.search(parse("heat"), ANONYMOUS, NOW, limit=200)
    assert [*hits.hits, *following.hits] == every.hits


# Effects of hidden videos


@pytest.mark.slow
def test_hidden_videos_do_not_affect_hits_or_scores_of_others(engine: TantivyEngine) -> None:
    visible = [
        document
        for document in random_documents(300)
        if document.user_id == "alice" or is_visible(document, ALICE, None)
    ]
    put(engine, *visible)
    queries = [parse(q) for q in ("heat", "the ", "terminatr heat", '"the heat"', "man -heart", "2001", "京")]

    def results() -> list[object]:
        hits: list[object] = [
            engine.search(index_query, ALICE, NOW, facets=FACETS, limit=300) for index_query in queries
        ]
        return hits + [engine.similar(document.video_id, ALICE, NOW, limit=300) for document in visible]

    before = results()
    assert any(hits.hits for hits in before if isinstance(hits, SearchHits))
    rare = " ".join(words(" ".join(VOCABULARY)))
    hidden = [
        replace(document, video_id=video_id(1_000 + number), user_id="bob", visible=False, title=rare, description=rare)
        for number, document in enumerate((visible * 50)[:50])
    ]
    put(engine, *hidden)
    assert engine.search(parse("heat"), BOB, NOW).total > engine.search(parse("heat"), ALICE, NOW).total
    assert results() == before


def test_scores_add_up_without_rounding(engine: TantivyEngine) -> None:
    put(engine, *random_documents(200))
    for q in ("heat", "the man ", "terminatr heat", '"the heat"', "haet 2001 man the a"):
        for hit in engine.search(parse(q), ROOT, NOW, limit=200).hits:
            assert hit.score * GRAIN == int(hit.score * GRAIN)
            assert hit.score <= hit.rank <= hit.score * 1.001


# Documents from stored items


VIDEO = {
    "videoId": video_id(1),
    "userId": "alice",
    "title": "Alien",
    "createdAt": 5,
    "status": "ready",
    "visibility": "public",
}


def test_document_is_built_from_a_video_and_its_child_items() -> None:
    video = VIDEO | {
        "tags": {"Space", "Horror"},
        "description": "A ship.",
        "category": "film",
        "language": "en",
        "releaseYear": 1979,
        "publishAt": 1,
        "expiresAt": 2,
        "purgeAt": 3,
    }
    child_items: list[Item] = [
        {"personId": "p1", "name": "Sigourney Weaver", "roles": [{"category": "actor", "characters": ["Ripley"]}]},
        {"personId": "p2", "roles": [{"category": "director"}]},
        {"region": "DE", "titles": [{"title": "Alien"}, {"title": "Das unheimliche Wesen"}]},
        {"chapters": [{"start": 0, "title": "Chapter"}]},
    ]
    cues = {"en": [Cue(100, 200, "<v Ash>You &amp; me,\n<i>Ripley</i>")]}
    assert build_document(video, child_items, cues) == VideoDocument(
        video_id=video_id(1),
        user_id="alice",
        title="Alien",
        created_at=5,
        visible=True,
        names=("Sigourney Weaver", "Ripley", "Das unheimliche Wesen"),
        tags=("Horror", "Space"),
        description="A ship.",
        facets={"category": "film", "year": 1979},
        language="en",
        publish_at=1,
        expires_at=2,
        purge_at=3,
        captions={"en": [(100, "You & me, Ripley")]},
    )


def test_private_or_unready_video_is_indexed_as_not_visible() -> None:
    for changed in ({"visibility": "private"}, {"status": "processing"}):
        document = build_document(VIDEO | changed, [], {})
        assert document is not None
        assert not document.visible


def test_deleted_or_absent_video_is_not_indexed() -> None:
    assert build_document(None, [], {}) is None
    assert build_document(VIDEO | {"status": "deleted"}, [], {}) is None


# Comparison with a scan of all videos


VOCABULARY = [
    *("heat", "heats", "heart", "hear", "heated", "The", "the", "terminator", "terminatr", "termination", "terminate"),
    *(
        "Straße",
        "strasse",
        "müller",
        "Mueller",
        "muller",
        "2001",
        "2010",
        "東京",
        "東京物語",
        "物語",
        "京",
        "spider-man",
    ),
    *("spiderman", "man", "don't", "dont", "l'été", "ete", "a", "9", "xy"),
]
WORDS = st.sampled_from(VOCABULARY)
PARTS = st.one_of(
    WORDS,
    WORDS,
    WORDS.map(lambda word: "-" + word),
    st.tuples(WORDS, WORDS).map(lambda both: f'"{both[0]} {both[1]}"'),
    st.tuples(WORDS, st.integers(1, 9)).map(lambda cut: cut[0][: cut[1]]),
    st.tuples(WORDS, st.integers(0, 9), st.sampled_from("aex東")).map(
        lambda typo: typo[0][: typo[1]] + typo[2] + typo[0][typo[1] + 1 :]
    ),
)
QUERIES = st.tuples(st.lists(PARTS, min_size=1, max_size=3), st.sampled_from(["", " "])).map(
    lambda parts: " ".join(parts[0]) + parts[1]
)
OWNERS = ("alice", "bob", "carol")


def random_documents(count: int) -> list[VideoDocument]:
    """Return random documents with few distinct words. Each call returns the same documents."""
    random_ = random.Random(5)

    def text(longest: int) -> str:
        return " ".join(random_.choices(VOCABULARY, k=random_.randint(0, longest)))

    def time() -> int | None:
        return random_.choice((None, None, None, NOW - 1, NOW, NOW + 1))

    def facets() -> dict[str, str | int]:
        """Return a random category or none, and a random year or none."""
        drawn = {"category": random_.choice((None, "a", "b")), "year": random_.choice((None, 1995, 2010))}
        return {name: value for name, value in drawn.items() if value is not None}

    return [
        VideoDocument(
            video_id(number),
            random_.choice(OWNERS),
            text(3),
            created_at=NOW - number,
            visible=random_.random() < 0.8,
            names=[text(2) for _ in range(random_.randint(0, 2))],
            tags=random_.sample(("Noir", "noir ", "USA", "Drama"), random_.randint(0, 3)),
            description=text(6),
            facets=facets(),
            language=random_.choice((None, "en", "en-NZ", "de")),
            publish_at=time(),
            expires_at=time(),
            purge_at=random_.choice((None, None, None, NOW, NOW + 1)),
            captions={"en": [(cue, text(3)) for cue in range(random_.randint(0, 3))]},
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TantivyEngine, Sequence[VideoDocument]]]:
    """Return an index to which documents were added, changed and deleted, and the remaining documents."""
    documents = random_documents(200)
    engine = TantivyEngine(tmp_path_factory.mktemp("index"))
    engine.put([replace(document, title="Other heat", visible=True) for document in documents])
    engine.commit(AT)
    for first in range(0, 200, 40):
        engine.put(documents[first : first + 40])
        engine.commit(AT)
    engine.put([], deleted_ids=[document.video_id for document in documents[:20]])
    engine.commit(AT)
    yield engine, documents[20:]
    engine.close()


def fits(document: VideoDocument, clause: Clause) -> bool:
    """Return whether any text of a document contains a word or phrase. Scans all texts."""
    texts = [document.title, *document.names, *document.tags, document.description]
    caption_words = [words(text) for text in texts]
    caption_words += [[word for _, text in cues for word in words(text)] for cues in document.captions.values()]
    if isinstance(clause, QueryWord):
        as_one = [token.word for text in texts for token in joined(text, tokens(text))]
        return any(clause.fit(word) for word in (*as_one, *(word for text in caption_words for word in text)))
    count = len(clause.texts)
    return any(tuple(text[at : at + count]) == clause.texts for text in caption_words for at in range(len(text)))


def is_visible(document: VideoDocument, caller: Caller, user_id: str | None) -> bool:
    """Return whether the caller may see a video, by the rules of lists."""
    if document.purge_at is not None and document.purge_at <= NOW:
        return False
    is_open = (document.publish_at or 0) <= NOW < (document.expires_at or NOW + 1)
    is_own = caller.subject == document.user_id or (caller.is_admin and user_id == document.user_id)
    return is_own or (document.visible and is_open)


def passes_filters(document: VideoDocument, filters: SearchFilters) -> bool:
    """Return whether a document passes the filters."""
    language = (document.language or "").lower()
    return (
        filters.user_id in (None, document.user_id)
        and filters.category in (None, document.facets.get("category"))
        and (filters.tag is None or normalise_tag(filters.tag) in {normalise_tag(tag) for tag in document.tags})
        and (filters.language is None or f"{language}-".startswith(f"{filters.language.lower()}-"))
        and (filters.created_from is None or filters.created_from <= document.created_at)
        and (filters.created_before is None or document.created_at < filters.created_before)
    )


FILTERS = st.builds(
    SearchFilters,
    category=st.sampled_from([None, None, None, "a"]),
    tag=st.sampled_from([None, None, None, "NOIR"]),
    user_id=st.sampled_from([None, None, None, *OWNERS]),
    language=st.sampled_from([None, None, None, "en", "de"]),
    created_from=st.sampled_from([None, None, NOW - 150]),
    created_before=st.sampled_from([None, None, NOW - 50]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(q=QUERIES, caller=st.sampled_from([ANONYMOUS, ALICE, BOB, ROOT]), filters=FILTERS)
def test_totals_facets_and_pages_match_a_full_scan(
    catalogue: tuple[TantivyEngine, Sequence[VideoDocument]], q: str, caller: Caller, filters: SearchFilters
) -> None:
    engine, documents = catalogue
    try:
        query = parse(q)
    except InvalidParameter:
        return  # the query has only exclusions
    expected = [
        document
        for document in documents
        if is_visible(document, caller, filters.user_id)
        and passes_filters(document, filters)
        and all(fits(document, clause) for clause in query.clauses)
        and not any(fits(document, clause) for clause in query.excluded)
    ]
    result = engine.search(query, caller, NOW, filters=filters, facets=FACETS, limit=1000)
    assert set(ids(result)) == {document.video_id for document in expected}
    assert len(result.hits) == result.total == len(expected)
    tags = Counter(tag for document in expected for tag in {normalise_tag(tag) for tag in document.tags})
    counted: dict[str, Counter[Any]] = {
        "category": Counter(document.facets.get("category") for document in expected),
        "tag": tags,
        "year": Counter(document.facets.get("year") for document in expected),
    }
    assert {name: dict(values) for name, values in result.facets.items()} == {
        name: {value: count for value, count in counts.items() if value is not None} for name, counts in counted.items()
    }
    hits: list[Hit] = []
    while len(hits) < result.total:
        after = hits[-1] if hits else None
        hits += engine.search(query, caller, NOW, filters=filters, limit=17, after=after).hits
    assert hits == result.hits
