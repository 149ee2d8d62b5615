"""Each row of shared/video_fields.py has the other definitions that its field needs. A failure names the file to
edit."""

import re
from pathlib import Path

from shared.job_kinds import KINDS
from shared.openapi.document import document
from shared.search.document import FORM
from shared.video_fields import FACETS, INTEGERS, PROJECTION, SENT, VIDEO_FIELDS
from shared.videos.documents import INTERNAL
from shared.videos.models import VideoContent
from tests.unit.test_videos import EVERYTHING
from tools.exchange_format import VideoLine


def test_every_field_has_its_other_definitions() -> None:
    names = {field.name for field in VIDEO_FIELDS}
    shown_fields = {field.name for field in VIDEO_FIELDS if field.is_shown}
    labelled = set(re.findall(r"^    (\w+): ", _group("fields"), re.MULTILINE))
    schemas = document()["components"]["schemas"]
    computed = {"viewCount", "categoryShard", "orderBy", "orderValue"}
    expected = {
        "label in `fields` of console/texts/en.js": (names - INTERNAL, labelled),
        "attribute of VideoLine in tools/exchange_format.py": (names - computed, set(VideoLine.model_fields)),
        "schema in shared/openapi/videos.py": (shown_fields, set(schemas["Video"]["properties"])),
        "value in EVERYTHING of tests/unit/test_videos.py": (
            {field.name for field in SENT if field.create == "client"},
            set(EVERYTHING),
        ),
        "facet in shared/openapi/search.py": (set(FACETS), set(schemas["Facets"]["properties"])),
    }
    missing = {
        place: sorted(required - defined) for place, (required, defined) in expected.items() if required - defined
    }
    assert missing == {}


def test_every_job_kind_has_a_label_in_the_console() -> None:
    assert set(re.findall(r"^    (\w+): ", _group("jobs"), re.MULTILINE)) == set(KINDS)


def test_integer_fields_equal_those_of_the_models() -> None:
    for name, schema in VideoContent.model_json_schema()["properties"].items():
        types = {option.get("type") for option in schema.get("anyOf", [schema])}
        assert (name in INTEGERS) == ("integer" in types), name


def test_changed_facets_require_a_new_search_index_format() -> None:
    assert (FORM, tuple(FACETS)) == (1, ("category", "tag", "year")), (
        "raise FORM in shared/search/document.py, then edit this"
    )


def test_positions_in_the_projection_are_counted_from_one() -> None:
    assert sorted(field.projected for field in VIDEO_FIELDS if field.projected) == [*range(1, len(PROJECTION) + 1)]


def _group(name: str) -> str:
    """Return the source of a group of the console's texts."""
    text = (Path(__file__).parents[2] / "console/texts/en.js").read_text(encoding="utf-8")
    return text.partition(f"\n  {name}: {{\n")[2].partition("\n  },\n")[0]
