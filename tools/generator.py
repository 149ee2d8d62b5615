"""Generator of synthetic catalogues of any size, in the layout of the IMDb non-commercial datasets.

The output depends only on the seed and the sizes. Each title and person has its own random number generator, so the
program writes each row immediately and holds no table in memory.
"""

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tools.imdb import AKAS, BASICS, CREW, CREW_CATEGORIES, EPISODES, NAMES, NULL, PRINCIPALS, RATINGS, Layout

FIRST_YEAR, LAST_YEAR = 1894, 2026
EPISODES_OF_A_SEASON = 3

_TYPES = {
    "movie": 30,
    "short": 25,
    "tvEpisode": 25,
    "tvSeries": 8,
    "tvMovie": 5,
    "video": 4,
    "tvMiniSeries": 2,
    "videoGame": 1,
}
_GENRES = (
    "Action", "Adventure", "Animation", "Biography", "Comedy", "Crime", "Documentary", "Drama", "Family", "Fantasy",
    "History", "Horror", "Music", "Musical", "Mystery", "News", "Romance", "Sci-Fi", "Sport", "Thriller", "War",
    "Western",
)  # fmt: skip
_FIRST = (
    "The Last", "A Silent", "Das große", '"Crocodile"', "Le dernier", "Café", "Ночной", "東京", "El otro", "Broken",
    "Midnight", "Ostatni", "The Secret of the", "Önskar", "Return to the", "O", "L'ultima", "Red", "Never a",
    "Gökyüzü",
)  # fmt: skip
_SECOND = (
    "River", "Mountain", "Schloß", "Dundee", "Été", "поезд", "物語", "Niño", "Mirror", "Garden", "Człowiek", "Sea",
    "Älskling", "Station", "Coração", "Notte", "Planet", '"Wall"', "Stranger", "Gölge",
)  # fmt: skip
_GIVEN = (
    "Ada", "Bruno", "Chloé", "Dmitri", "Elif", "Fred", "Greta", "Håkon", "Ines", "José", "Kamala", "Lars", "Mei",
    "Nina", "Oskar", "Priya", "Quentin", "Rosa", "Şebnem", "Tomás",
)  # fmt: skip
_FAMILY = (
    "Almeida", "Bergman", "Çelik", "Dupont", "Eriksson", "Fellini", "García", "Hitchcock", "Ivanov", "Johansson",
    "Kurosawa", "Łukasz", "Müller", "Nakamura", "O'Hara", "Petit", "Quiroga", "Ray", "Strauß", "Tarr",
)  # fmt: skip
_CATEGORIES = ("actor", "actress", "actor", "actress", "director", "writer", "producer", "composer", "editor", "self")
_JOBS = ("screenplay", "story", "based on the novel", "executive producer")
_REGIONS = ("US", "GB", "NZ", "DE", "FR", "JP", "BR", "IN", "TR", "XWW", "SUHH", "CA")
_LANGUAGES = (None, None, "en", "fr", "de", "ja", "pt", "hi", "tr", "ru")
_AKA_TYPES = ("imdbDisplay", "alternative", "working", "dvd", "imdbDisplay", "festival\x02tv")
_ATTRIBUTES = (None, None, None, None, "literal title", "short title", "8mm release title\x02fake working title")

Row = tuple[str | None, ...]


def generate(
    folder: Path, titles: int, *, people: int, seed: int = 0, progress: Callable[[int], object] = lambda done: None
) -> None:
    """Write all dataset files to `folder`, with data on `titles` titles and `people` people.

    `progress` receives the number of titles and people that were written so far.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:
        basics, episodes, principals, crew, akas, ratings, names = (
            files.enter_context(_writer(folder, layout))
            for layout in (BASICS, EPISODES, PRINCIPALS, CREW, AKAS, RATINGS, NAMES)
        )
        series: str | None = None
        aired = 0
        for number in range(1, titles + 1):
            title = _Title(number, Random(f"{seed}/title/{number}"))
            basics(title.basics())
            if title.type in ("tvSeries", "tvMiniSeries"):
                series, aired = title.id, 0
            elif title.type == "tvEpisode" and series:
                season, place = divmod(aired, EPISODES_OF_A_SEASON)
                episodes((title.id, series, str(season + 1), str(place + 1)))
                aired += 1
            cast = list(title.principals(people))
            for row in cast:
                principals(row)
            crew(_crew(title.id, cast, Random(f"{seed}/crew/{number}"), people))
            for row in title.akas():
                akas(row)
            for row in title.ratings():
                ratings(row)
            progress(number)
        for number in range(1, people + 1):
            names(_person(number, Random(f"{seed}/person/{number}"), titles))
            progress(titles + number)


@contextmanager
def _writer(folder: Path, layout: Layout) -> Iterator[Callable[[Row], None]]:
    """Yield a function that appends a row to the file of a dataset.

    Until the end of the block, the file's name ends with `.part`.
    """
    unfinished = folder / f"{layout.file}.part"
    # The gzip header has no file name and no time, so that equal rows produce equal files.
    with unfinished.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
        text.write("\t".join(layout.columns) + "\n")

        def write(row: Row) -> None:
            text.write("\t".join(NULL if value is None else value for value in row) + "\n")

        yield write
        text.flush()
        text.detach()
    os.replace(unfinished, folder / layout.file)


class _Title:
    def __init__(self, number: int, random: Random) -> None:
        self._random = random
        self.id = f"tt{number:07}"
        self.title = self._name()
        self.type = random.choices(list(_TYPES), list(_TYPES.values()))[0]

    def _name(self) -> str:
        number = f" {self._random.randint(2, 9)}" if self._random.random() < 0.1 else ""
        return f"{self._random.choice(_FIRST)} {self._random.choice(_SECOND)}{number}"

    def _maybe(self, value: str, likely: float) -> str | None:
        return value if self._random.random() < likely else None

    def basics(self) -> Row:
        random = self._random
        # Recent films are much more frequent than old ones.
        year = max(FIRST_YEAR, LAST_YEAR - int(random.expovariate(1 / 22)))
        series = self.type in ("tvSeries", "tvMiniSeries")
        end = str(min(LAST_YEAR, year + random.randint(0, 12))) if series else None
        genres = random.sample(_GENRES, random.randint(1, 3))
        minutes = random.randint(2, 40) if self.type == "short" else random.randint(20, 190)
        return (
            self.id,
            self.type,
            self.title,
            self._name() if random.random() < 0.1 else self.title,
            "1" if random.random() < 0.02 else "0",
            self._maybe(str(year), 0.95),
            end,
            self._maybe(str(minutes), 0.8),
            self._maybe(",".join(sorted(genres)), 0.95),
        )

    def principals(self, people: int) -> Iterator[Row]:
        random = self._random
        for ordering in range(1, random.randint(0, 10) + 1 if people else 1):
            # The distribution is skewed: a few people have many credits.
            person = f"nm{int(people * random.random() ** 3) + 1:07}"
            category = random.choice(_CATEGORIES)
            job = random.choice(_JOBS) if category in ("writer", "producer") else None
            characters = None
            if category in ("actor", "actress", "self"):
                played = ["Self"] if category == "self" else self._characters()
                characters = json.dumps(played, ensure_ascii=False, separators=(",", ":"))
            yield self.id, str(ordering), person, category, job, characters

    def _characters(self) -> list[str]:
        names = [f'{self._random.choice(_GIVEN)} "{self._random.choice(_SECOND)}"', self._random.choice(_GIVEN)]
        return names[: self._random.choice((1, 1, 1, 2))]

    def akas(self) -> Iterator[Row]:
        random = self._random
        yield self.id, "1", self.title, None, None, "original", None, "1"
        for ordering, region in enumerate(random.sample(_REGIONS, random.randint(0, 4)), 2):
            name = self.title if random.random() < 0.5 else self._name()
            language, types, attributes = (random.choice(choices) for choices in (_LANGUAGES, _AKA_TYPES, _ATTRIBUTES))
            yield self.id, str(ordering), name, region, language, types, attributes, "0"

    def ratings(self) -> Iterator[Row]:
        random = self._random
        if random.random() < 0.7:
            average = min(10.0, max(1.0, random.gauss(6.5, 1.4)))
            yield self.id, f"{average:.1f}", str(5 + int(random.paretovariate(0.7)))


def _crew(title: str, cast: Sequence[Row], random: Random, people: int) -> Row:
    """Return the row of title.crew for a title. The row may name directors and writers that are not in `cast`, as in IMDb."""
    others = [f"nm{random.randint(1, people):07}" for _ in range(random.randint(0, 2))] if people else []
    listed = (
        dict.fromkeys([*(row[2] or "" for row in cast if row[3] == category), *others[place : place + 1]])
        for place, category in enumerate(CREW_CATEGORIES)
    )
    directors, writers = (",".join(column) or None for column in listed)
    return title, directors, writers


def _person(number: int, random: Random, titles: int) -> Row:
    born = random.randint(1850, 2010)
    return (
        f"nm{number:07}",
        f"{random.choice(_GIVEN)} {random.choice(_FAMILY)}",
        str(born) if random.random() < 0.6 else None,
        str(born + random.randint(20, 95)) if born < 1940 and random.random() < 0.7 else None,
        random.choice((None, "actor", "actress,producer", "director,writer")),
        f"tt{random.randint(1, titles):07}" if titles else None,
    )
