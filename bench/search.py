"""Search latency, index size and typo tolerance: `python -m bench.search` (some minutes).

Each run generates the same two catalogues: videos without captions, and videos with many captions. The benchmark also
searches for the titles of the demo videos, each with a typo. The engine runs in this process, so HTTP overhead is not
measured. For queries, the figures are processor time, which does not depend on the load of the machine. For commits,
they are elapsed time, because commits wait for the disk.
"""

import json
import statistics
import string
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

from local.demo import FILMS, title
from shared.core.caller import Caller
from shared.search.document import VideoDocument
from shared.search.engine import IndexCheckpoint
from shared.search.highlights import Highlighter
from shared.search.query_parser import parse
from shared.search.tantivy_engine import TantivyEngine
from shared.search.tokenizer import ONE_TYPO, distance, tokens, words
from shared.video_fields import FACETS

SILENT, TALKING = 100_000, 1_000
"""Number of videos in the two catalogues: without captions, and with captions."""
CUES, WORDS_OF_A_CUE = 1_000, 7
LOOKED_FOR = 3_200
"""Maximum number of titles that the benchmark searches for with a typo."""
QUERIES = 200
"""Number of queries of each kind."""
COMMITS = 40
PAGE = 25
VOCABULARY = 30_000
NOW = 1_795_000_000
CALLER = Caller("user-7", frozenset())
AT = IndexCheckpoint({}, 0)
GENRES = (
    "Action",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Family",
    "Horror",
    "Music",
    "Romance",
    "Sci-Fi",
    "War",
    "Western",
)

_OPENINGS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
)
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou", "é", "ü")
_ENDINGS = ("", "", "n", "r", "s", "t", "l", "ck", "nd")


class RandomLanguage:
    """A generated language with a natural distribution of words: few words are frequent, most are rare."""

    def __init__(self, random: Random, size: int) -> None:
        self._random = random
        found: dict[str, None] = {}
        while len(found) < size:
            # The first words, which are the most frequent, are short.
            syllables = 1 + (len(found) > 150) + (random.random() < 0.4)
            found["".join(self._syllable() for _ in range(syllables))] = None
        self.words = list(found)
        self._weights = list(accumulate(1 / (rank + 5) for rank in range(size)))
        self._rarer = list(accumulate(1 / (rank + 500) for rank in range(size)))

    def _syllable(self) -> str:
        return "".join(map(self._random.choice, (_OPENINGS, _VOWELS, _ENDINGS)))

    def text(self, count: int) -> str:
        """Return a text of `count` random words, in which frequent words occur more often than rare ones."""
        return " ".join(self._random.choices(self.words, cum_weights=self._weights, k=count))

    def name(self, count: int) -> str:
        """Return a name of `count` random words in title case. Most of the words are rare."""
        return " ".join(self._random.choices(self.words, cum_weights=self._rarer, k=count)).title()


def random_videos(count: int, language: RandomLanguage, random: Random, cues: int = 0) -> Iterator[VideoDocument]:
    """Yield the videos of a catalogue. About 5 % are hidden, and a few have a publication or expiry time."""
    for number in range(count):
        cues_of_video = [(3_000 * cue, language.text(WORDS_OF_A_CUE)) for cue in range(cues)]
        yield VideoDocument(
            str(uuid.UUID(int=random.getrandbits(128))),
            f"user-{random.randrange(500)}",
            language.name(random.choice((1, 2, 2, 3, 3, 4, 5))),
            created_at=NOW - 600 * number,
            visible=random.random() < 0.95,
            names=[language.name(2) for _ in range(6)],
            tags=random.sample(GENRES, random.randint(1, 3)),
            description=language.text(40),
            facets={"category": random.choice(GENRES), "year": 2026 - int(random.expovariate(1 / 20))},
            language=random.choice(("en", "en-NZ", "de", "fr", None)),
            publish_at=NOW + random.randint(-1000, 1000) if random.random() < 0.02 else None,
            expires_at=NOW + random.randint(-1000, 1000) if random.random() < 0.02 else None,
            captions={"en": cues_of_video} if cues_of_video else {},
        )


def with_typo(text: str, random: Random) -> str | None:
    """Return the text with one typo, or `None` if no word is long enough for search to tolerate a typo."""
    words_ = [token for token in tokens(text) if len(token.word) >= ONE_TYPO and token.word.isalpha() and not token.run]
    if not words_:
        return None
    token = random.choice(words_)
    word = text[token.start : token.end]
    other = word
    while distance(token.word, "".join(words(other)), 1) != 1:
        at = random.randrange(len(word))
        letter = random.choice(string.ascii_lowercase)
        kind = random.randrange(4)
        if kind == 0:
            other = word[:at] + letter + word[at + 1 :]
        elif kind == 1:
            other = word[:at] + letter + word[at:]
        elif kind == 2:
            other = word[:at] + word[at + 1 :]
        else:
            other = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    return text[: token.start] + other + text[token.end :]


def found_with_typos(engine: TantivyEngine, titles: Sequence[str], random: Random) -> tuple[int, int]:
    """Search for each title, written with one typo. Returns the number of searches that find the title among the first
    three hits, and the number of all searches.

    Titles without a word long enough for typo tolerance are skipped.
    """
    found = looked_for = 0
    for title_ in titles:
        q = with_typo(title_, random)
        if q is None:
            continue
        looked_for += 1
        hits = engine.search(parse(q[:256]), CALLER, NOW, limit=3).hits
        found += any(stored and stored.title == title_ for stored in engine.stored([hit.video_id for hit in hits]))
    return found, looked_for


def random_queries(
    catalogue: Sequence[VideoDocument], language: RandomLanguage, random: Random
) -> dict[str, list[str]]:
    """Return random queries for a catalogue, by kind of query."""

    def some(build: Callable[[VideoDocument], str]) -> list[str]:
        return [build(random.choice(catalogue)) for _ in range(QUERIES)]

    def sentence(video: VideoDocument) -> str:
        lines = [text for cues_ in video.captions.values() for _, text in cues_]
        if not lines:
            return " ".join(video.description.split()[5:10])
        at = random.randrange(len(lines) - 1)
        return " ".join(f"{lines[at]} {lines[at + 1]}".split()[4:10])

    return {
        "a word of a title": some(lambda video: f"{video.title.split()[0]} "),
        "a title": some(lambda video: video.title),
        "a title with a typo": [typo for text in some(lambda video: video.title) if (typo := with_typo(text, random))],
        "three letters of a word": some(lambda video: video.title[:3]),
        "one letter": [random.choice(string.ascii_lowercase) for _ in range(QUERIES)],
        "frequent words": [" ".join(random.sample(language.words[:50], 2)) + " " for _ in range(QUERIES)],
        "a quote": some(lambda video: f'"{sentence(video)}"'),
        "a quote without its marks": some(sentence),
        "ten words": [language.name(10) for _ in range(QUERIES)],
    }


def timed(times: Sequence[float]) -> str:
    """Format the median and the 95th percentile of `times`, which are in seconds, as milliseconds."""
    cuts = statistics.quantiles(times, n=20)
    return f"p50 {cuts[9] * 1e3:6.1f} ms   p95 {cuts[18] * 1e3:6.1f} ms"


def measure(
    name: str, catalogue: Sequence[VideoDocument], language: RandomLanguage, random: Random, folder: Path
) -> None:
    """Build an index of a catalogue, query it, and print its size and the times."""
    engine = TantivyEngine(folder)
    started = time.process_time()
    engine.put(catalogue)
    engine.commit(AT)
    engine.settle()
    seconds = time.process_time() - started
    size = sum(file.size for file in engine.files())
    print(f"{name}: {len(catalogue):,} films in {seconds:.1f} s, {seconds / len(catalogue) * 1e3:.2f} ms a film")
    print(f"  {size / 1e6:.1f} MB on disk, {size / len(catalogue) / 1e3:.2f} KB a film")
    started = time.process_time()
    TantivyEngine(folder).search(parse("film"), CALLER, NOW, facets=FACETS)
    print(f"  opened, with the first query, in {(time.process_time() - started) * 1e3:.1f} ms")
    print(f"  a page of {PAGE} with its total, three facets and highlights:")
    for kind, queries in random_queries(catalogue, language, random).items():
        times, totals = [], []
        for q in queries:
            started = time.process_time()
            query = parse(q)
            found = engine.search(query, CALLER, NOW, facets=FACETS, limit=PAGE)
            highlighter = Highlighter(query)
            for stored in engine.stored([hit.video_id for hit in found.hits]):
                if stored:
                    highlighter.of(stored)
            times.append(time.process_time() - started)
            totals.append(found.total)
        print(f"    {kind:26} {timed(times)}   of {statistics.median(totals):,.0f} films")
    times = []
    for video in random.choices(catalogue, k=QUERIES):
        started = time.process_time()
        engine.similar(video.video_id, CALLER, NOW)
        times.append(time.process_time() - started)
    print(f"  ten films like one            {timed(times)}")
    times = []
    for video in random.choices(catalogue, k=COMMITS):
        started = time.perf_counter()
        engine.put([video])
        engine.commit(AT)
        times.append(time.perf_counter() - started)
    print(f"  a commit of one film          {timed(times)}")
    visible = [video.title for video in catalogue if video.visible and not (video.publish_at or video.expires_at)]
    _print_typos(engine, visible[:LOOKED_FOR], random)
    engine.close()


def _print_typos(engine: TantivyEngine, titles: Sequence[str], random: Random) -> None:
    found, looked_for = found_with_typos(engine, titles, random)
    print(f"  {found / max(looked_for, 1):.1%} of {looked_for:,} titles with a typo are among the first three hits")


def demo_videos() -> list[VideoDocument]:
    """Return the videos of the demo as documents that have only a title."""
    records = json.loads(FILMS.read_text(encoding="utf-8"))
    titles = (title(record.get("Title")) for record in records)
    return [
        VideoDocument(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))), "demo", each, number, visible=True)
        for number, each in enumerate(titles)
    ]


def main(arguments: list[str]) -> None:
    """Measure a catalogue without captions, and another with captions.

    The arguments are the numbers of videos in the two catalogues, by default SILENT and TALKING.
    """
    silent, talking = map(int, arguments) if arguments else (SILENT, TALKING)
    with tempfile.TemporaryDirectory() as name:
        random = Random(1)
        language = RandomLanguage(random, VOCABULARY)
        measure(
            "without captions", list(random_videos(silent, language, random)), language, random, Path(name) / "silent"
        )
        spoken = list(random_videos(talking, language, random, cues=CUES))
        measure(f"with {CUES:,} cues each", spoken, language, random, Path(name) / "talking")
        demo = demo_videos()
        engine = TantivyEngine(Path(name) / "demo")
        engine.put(demo)
        engine.commit(AT)
        print(f"the demo: {len(demo):,} films")
        _print_typos(engine, [video.title for video in demo], random)
        engine.close()


if __name__ == "__main__":
    main(sys.argv[1:])
