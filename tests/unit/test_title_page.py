"""The title page of a video: its title in the reader's region and language, and its child items, read with one
Query."""

import json
from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import Api, Reply, record_operations
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.queries import SECTIONS
from shared.relations import title_page
from shared.relations.title_page import Locale, accepted_languages, local_title
from shared.schema import RATING_TOTALS, SCHEMA_VERSION

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
PATH = f"/v1/videos/{VIDEO_ID}"
ALL = "include=credits,releases,ratings,tags,jobs"


@pytest.fixture
def video(api: Api) -> dict[str, Any]:
    """Create a published video, visible to everyone, and return its document."""
    return api.publish("alice", videoId=VIDEO_ID, title="The Piano", tags=["drama", "NZ"], releaseYear=1993)


def release(api: Api, *locales: str) -> None:
    """Create a release for each locale, with the locale as its first title."""
    for locale in locales:
        assert (
            api.put(f"{PATH}/releases/{locale}", {"titles": [{"title": locale}, {"title": "less usual"}]}).status == 201
        )


def credit(api: Api, person: str, ordering: int) -> None:
    body = {"ordering": ordering, "roles": [{"category": "actor"}]}
    assert api.put(f"{PATH}/credits/{person}", body).status == 201


def read(api: Api, query: str = "", languages: str | None = None, **options: Any) -> Reply:
    headers = {} if languages is None else {"Accept-Language": languages}
    return api.get(PATH, query=query, headers=headers | options.pop("headers", {}), **options)


def people(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.body
    return [item["personId"] for item in reply.json["included"]["credits"]["items"]]


# Accept-Language ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "ranges"),
    [
        (None, ()),
        ("", ()),
        ("*", ()),
        ("en", ("en",)),
        ("en-nz, MI;q=0.5", ("en-NZ", "mi")),
        ("de;q=0.1,fr;q=0.9, en", ("en", "fr", "de")),
        ("de;q=0,fr", ("fr",)),
        ("de ; Q = 0.5 , fr;q=0.500", ("de", "fr")),
        ("zh-hant-tw", ("zh-Hant-TW",)),
        ("en,EN;q=0.3", ("en",)),
        ("en;q=2,fr;q=x,de_DE,;,mi", ("mi",)),
        ("en;q=0.1234", ()),
        (",".join(f"x{letter}" for letter in "abcdefghijklmnop"), tuple(f"x{letter}" for letter in "abcdefghij")),
    ],
)
def test_the_languages_of_a_header_come_in_the_order_of_their_weights(header: str | None, ranges: Any) -> None:
    assert accepted_languages(header) == ranges


# The title in a region and language ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("locales", "region", "languages", "title", "match"),
    [
        # A region alone.
        ("NZ NZ/mi AU", "NZ", "", "NZ", "region"),
        ("NZ/mi NZ/en", "NZ", "", "NZ/en", "region"),
        ("AU AU/en", "NZ", "", "The Piano", "original"),
        # A region and languages.
        ("NZ NZ/mi NZ/en", "NZ", "en", "NZ/en", "region-and-language"),
        ("NZ NZ/mi NZ/en", "NZ", "en-GB", "NZ/en", "region-and-language"),
        ("NZ NZ/mi", "NZ", "fr,mi;q=0.5", "NZ/mi", "region-and-language"),
        ("NZ/en-NZ NZ/mi", "NZ", "en", "NZ/en-NZ", "region-and-language"),
        ("NZ NZ/mi FR/fr", "NZ", "fr", "NZ", "region"),
        ("NZ/mi FR/fr", "NZ", "fr", "NZ/mi", "region"),
        ("FR/fr CA/fr", "NZ", "fr", "CA/fr", "language"),
        ("DE/de", "NZ", "fr", "The Piano", "original"),
        # Languages alone.
        ("FR/fr DE/de", "", "de,fr;q=0.5", "DE/de", "language"),
        ("FR/fr DE", "", "de", "The Piano", "original"),
        ("TW/zh-Hant CN/zh-Hans", "", "zh-Hant-TW", "TW/zh-Hant", "region-and-language"),
        ("CN/zh-Hans", "", "zh-Hant", "The Piano", "original"),
        # A region in a language tag.
        ("GB/en NZ/en", "", "en-NZ", "NZ/en", "region-and-language"),
        ("GB/en NZ", "", "en-NZ", "NZ", "region"),
        ("CH/fr DE/de", "", "de-CH", "DE/de", "language"),
        ("CH/fr", "", "de-CH", "The Piano", "original"),
        ("US DE/de", "", "de-CH,en-US;q=0.5", "DE/de", "language"),
        ("NZ/en AU/en", "AU", "en-NZ", "AU/en", "region-and-language"),
    ],
)
def test_local_title_is_the_best_match(
    api: Api, video: dict[str, Any], locales: str, region: str, languages: str, title: str, match: str
) -> None:
    release(api, *locales.split())

    chosen = read(api, f"region={region}" if region else "", languages).json["localTitle"]

    assert (chosen["title"], chosen["match"]) == (title, match)
    where, _, language = title.partition("/")
    expected = {} if match == "original" else {"region": where} | ({"language": language} if language else {})
    assert chosen == expected | {"title": title, "match": match}


def test_reader_of_the_videos_language_gets_the_original_title(api: Api) -> None:
    api.publish("alice", videoId=VIDEO_ID, title="The Piano", language="en")
    release(api, "IN/en", "FR/fr", "NZ/en")

    assert read(api, languages="en-GB,fr;q=0.5").json["localTitle"] == {
        "title": "The Piano",
        "language": "en",
        "match": "original",
    }
    assert read(api, languages="fr,en;q=0.5").json["localTitle"]["title"] == "FR/fr"
    assert read(api, languages="en-NZ").json["localTitle"]["title"] == "NZ/en"


def test_language_subtags_after_a_singleton_are_ignored() -> None:
    video = {"title": "Original"}
    releases = [{"region": "DE", "language": "de", "titles": [{"title": "Deutsch"}]}]
    assert local_title(video, releases, Locale(None, ("de-x-custom",)))["title"] == "Deutsch"


def test_request_without_region_and_language_reads_no_releases(api: Api, video: dict[str, Any], table: Table) -> None:
    release(api, "NZ")
    for languages in (None, "*", "_"):
        with record_operations(table.client) as operations:
            reply = read(api, languages=languages)
        assert [operation.name for operation in operations] == ["BatchGetItem"]
        assert "localTitle" not in reply.json
        assert reply.headers["vary"] == "Accept-Language"


def test_local_title_can_be_the_only_requested_field(api: Api, video: dict[str, Any], table: Table) -> None:
    release(api, "NZ")
    local = {"localTitle": {"title": "NZ", "region": "NZ", "match": "region"}}

    with record_operations(table.client) as operations:
        assert read(api, "fields=localTitle&region=NZ").json == local
    assert [operation.name for operation in operations] == ["GetItem", "Query"]
    assert read(api, "fields=videoId,localTitle,viewCount&region=NZ").json == {
        "videoId": VIDEO_ID,
        **local,
        "viewCount": 0,
    }
    assert read(api, "fields=localTitle").json == {"localTitle": {"title": "The Piano", "match": "original"}}
    assert read(api, "fields=title&region=NZ").json == {"title": "The Piano"}


def test_etag_depends_on_the_local_title(api: Api, video: dict[str, Any]) -> None:
    release(api, "NZ", "AU")
    here = read(api, "region=NZ")
    assert read(api, "region=NZ", headers={"If-None-Match": here.etag}).status == 304
    assert read(api, "region=AU", headers={"If-None-Match": here.etag}).status == 200


@pytest.mark.parametrize("region", ["ZZ", "NZL", "", "n%00"])
def test_unknown_region_is_refused(api: Api, video: dict[str, Any], region: str) -> None:
    reply = read(api, f"region={region}")
    assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "region")


def test_a_hidden_video_does_not_reveal_its_title(api: Api) -> None:
    api.create("admin", userId="alice", videoId=VIDEO_ID)
    release(api, "NZ")
    assert read(api, "region=NZ", user="bob").status == 404
    assert read(api, ALL, user="bob").status == 404


# Sections of the title page ----------------------------------------------------------------------------------------


def test_title_page_takes_one_query_and_one_counter_read(api: Api, video: dict[str, Any], table: Table) -> None:
    release(api, "NZ/mi", "AU")
    credit(api, "a", 2)
    credit(api, "b", 1)
    api.post(f"{PATH}/views", user="bob")

    with record_operations(table.client) as operations:
        reply = read(api, ALL, languages="mi")

    assert [operation.name for operation in operations] == ["Query", "GetItem"]
    included = reply.json["included"]
    assert people(reply) == ["b", "a"]
    assert included["credits"]["nextCursor"] is None
    assert included["releases"] == api.get(f"{PATH}/releases").json
    assert included["ratings"]["votes"] == 0
    assert included["tags"] == ["NZ", "drama"]
    assert included["jobs"] == []
    assert reply.json["viewCount"] == 1
    assert reply.json["localTitle"] == {"title": "NZ/mi", "region": "NZ", "language": "mi", "match": "language"}
    local_title = read(api, languages="mi").json
    assert {name: value for name, value in reply.json.items() if name != "included"} == local_title


@pytest.mark.parametrize("section", SECTIONS)
def test_title_page_includes_requested_sections_only(api: Api, video: dict[str, Any], section: str) -> None:
    release(api, "NZ")
    credit(api, "a", 1)
    reply = read(api, f"include={section}")
    assert reply.json["included"].keys() == {section}
    assert "localTitle" not in reply.json


def test_ratings_are_shown_as_totals(api: Api, video: dict[str, Any], table: Table) -> None:
    totals = {"videoId": VIDEO_ID, "votes": 2, "sum": 15, "likes": 1, "dislikes": 0, "schemaVersion": SCHEMA_VERSION}
    item = RATING_TOTALS.key(videoId=VIDEO_ID) | totals
    table.write(table.put(item, condition=Expression("attribute_not_exists(#pk)", {"#pk": "pk"})))

    ratings = read(api, "include=ratings").json["included"]["ratings"]

    assert (ratings["average"], ratings["votes"], ratings["likes"]) == (7.5, 2, 1)


def test_jobs_are_for_the_owner_and_admins(api: Api, table: Table) -> None:
    video_id = BackgroundWork(table, api.clock).uploaded_film(api)
    path = f"/v1/videos/{video_id}"
    assert api.patch(path, {"visibility": "public", "status": "ready"}).status == 200

    jobs = api.get(path, query="include=jobs").json["included"]["jobs"]

    assert jobs
    assert jobs == api.get(f"{path}/jobs").json["items"]
    assert api.get(path, query="include=jobs", user="admin").json["included"]["jobs"] == jobs
    assert api.get(path, query="include=jobs,tags", user="bob").json["included"] == {"tags": []}


def test_other_users_see_no_private_fields_on_a_title_page(api: Api) -> None:
    api.publish("alice", videoId=VIDEO_ID, expiresAt=2_000_000_000)
    assert "purgeAt" in read(api, ALL).json
    other_user = read(api, ALL, user="bob").json
    assert "purgeAt" not in other_user
    assert "jobs" not in other_user["included"]


def test_truncated_lists_of_a_title_page_have_cursors(
    api: Api, video: dict[str, Any], table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(title_page, "LARGEST_SECTION", 2)
    names = list("abcdefg")
    for ordering, person in enumerate(reversed(names)):
        credit(api, person, ordering + 1)
    release(api, "AU", "FR", "NZ")

    with record_operations(table.client) as operations:
        reply = read(api, ALL)

    # A Query for the beginning of the partition, the counter, and a Query for each section that the first Query did not
    # reach.
    assert [operation.name for operation in operations] == ["Query", "GetItem", "Query", "Query"]
    first_page, cursor = people(reply), reply.json["included"]["credits"]["nextCursor"]
    next_page = api.get(f"{PATH}/credits", query=f"cursor={cursor}").json
    assert sorted(first_page) + [item["personId"] for item in next_page["items"]] == names
    assert next_page["nextCursor"] is None
    releases = reply.json["included"]["releases"]
    assert [item["region"] for item in releases["items"]] == ["AU", "FR"]
    next_page = api.get(f"{PATH}/releases", query=f"cursor={releases['nextCursor']}").json
    assert [item["region"] for item in next_page["items"]] == ["NZ"]


def test_size_of_lists_on_a_title_page_is_limited(
    api: Api, video: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for ordering, person in enumerate("dcba"):
        credit(api, person, ordering + 1)
    release(api, "AU", "FR", "NZ")
    size = len(json.dumps(json.dumps(api.get(f"{PATH}/credits/a").json, separators=(",", ":"))))
    monkeypatch.setattr(title_page, "LARGEST_LIST", 2 * size)

    reply = read(api, "include=credits,releases")

    # The list is cut in cursor order, then sorted by `ordering`.
    assert people(reply) == ["b", "a"]
    for section, name, included, remaining in (
        ("credits", "personId", ["b", "a"], ["c", "d"]),
        ("releases", "region", ["AU"], ["FR", "NZ"]),
    ):
        part = reply.json["included"][section]
        next_page = api.get(f"{PATH}/{section}", query=f"cursor={part['nextCursor']}").json["items"]
        assert [item[name] for item in part["items"]] == included
        assert [item[name] for item in next_page] == remaining


def test_sections_may_be_in_one_or_several_parameters(api: Api, video: dict[str, Any]) -> None:
    for query in ("include=credits,tags", "include=credits&include=tags", "include=tags&include=credits,tags"):
        assert set(read(api, query).json["included"]) == {"credits", "tags"}


def test_title_page_with_the_largest_lists_fits_the_lambda_limit() -> None:
    largest_item = 400 * 1024
    assert 2 * (title_page.LARGEST_LIST + largest_item) < 5_000_000


def test_title_page_has_all_jobs_even_if_its_first_query_ends_early(
    api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/videos/{BackgroundWork(table, api.clock).uploaded_film(api)}"
    jobs = api.get(f"{path}/jobs").json["items"]
    monkeypatch.setattr(title_page, "LARGEST_SECTION", len(jobs))

    assert api.get(path, query="include=jobs").json["included"]["jobs"] == jobs


def test_a_limited_number_of_releases_is_read_for_a_title(
    api: Api, video: dict[str, Any], table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(title_page, "MAX_RELEASES", 2)
    release(api, "AT/de", "AU/en", "NZ/en", "NZ/mi")

    def title(query: str, languages: str | None = None) -> Any:
        return read(api, query, languages).json["localTitle"]["title"]

    assert title("", "en") == "AU/en"
    assert title("", "mi") == "The Piano"
    assert title("region=NZ", "mi") == "NZ/mi"
    assert title("region=FR", "en") == "AU/en"
    with record_operations(table.client) as operations:
        title("region=NZ", "fr")
    assert [operation.name for operation in operations] == ["BatchGetItem", "Query"]
    assert {operation.parameters["Limit"] for operation in operations if operation.name == "Query"} == {3}


def test_local_title_does_not_depend_on_the_included_sections(
    api: Api, video: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    release(api, "AU", "FR", "NZ")
    monkeypatch.setattr(title_page, "LARGEST_SECTION", 2)
    for sections in ("tags", "releases", "credits,releases"):
        assert read(api, f"include={sections}&region=NZ").json["localTitle"]["title"] == "NZ"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("include=stars", "include"),
        ("include=", "include"),
        ("include=credits,", "include"),
        ("include=credits&fields=title", "include"),
        ("includes=credits", "includes"),
    ],
)
def test_invalid_include_is_refused(api: Api, video: dict[str, Any], query: str, parameter: str) -> None:
    reply = read(api, query)
    assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, parameter)
