"""Folders: paths, lists of their videos, counts, and moves."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import NOW, Api, record_operations
from shared.aws.dynamodb import Table
from shared.core.folders import ancestors, folder_path, is_within, moved_path, split_path
from shared.schema import FOLDER, VIDEO

WIDE = "\N{CLAPPER BOARD}"
ACUTE = "e\N{COMBINING ACUTE ACCENT}"


def titles(api: Api, query: str, user: str = "alice") -> list[str]:
    """Return the titles on the first page of a list of videos."""
    reply = api.get("/v1/videos", query=query, user=user)
    assert reply.status == 200, reply.body
    return [item["title"] for item in reply.json["items"]]


def entry(table: Table, video: dict[str, Any]) -> str | None:
    """Return the id of a video's folder entry; `None` if it has no entry."""
    item = table.get(FOLDER.key(videoId=video["videoId"]), consistent=True)
    return f"{item['rel']} {item['relId']}" if item else None


def names(api: Api, path: str) -> list[str]:
    """Return the paths of the folders on the first page of a list."""
    reply = api.get(path)
    assert reply.status == 200, reply.body
    return [item["folder"] for item in reply.json["items"]]


class TestPaths:
    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("a", "a"),
            (" a / b c ", "a/b c"),
            (f"caf{ACUTE}", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
            ("/".join("abcdefghij"), "/".join("abcdefghij")),
            ("..a/.b/c.", "..a/.b/c."),
            ("#%/~", "#%/~"),
            (WIDE * 200, WIDE * 200),
        ],
    )
    def test_path_is_normalised(self, text: str, path: str) -> None:
        assert folder_path(text) == path
        assert folder_path(path) == path

    @pytest.mark.parametrize(
        "text",
        ["", "/", "a/", "/a", "a//b", "a/ /b", ".", "a/..", "a\nb", "\u2028", "/".join("abcdefghijk"), "x" * 201],
    )
    def test_invalid_path_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="must"):
            folder_path(text)

    def test_path_that_grows_by_normalisation_is_refused(self) -> None:
        with pytest.raises(ValueError, match="200 characters"):
            folder_path("\N{MUSICAL SYMBOL HALF NOTE}" * 101)

    def test_folder_contains_itself_and_subfolders_but_no_folder_with_a_longer_name(self) -> None:
        assert [is_within(path, "a/b") for path in ("a/b", "a/b/c", "a/bc", "a", "b")] == [
            True,
            True,
            False,
            False,
            False,
        ]

    def test_path_has_its_ancestors_and_its_parent(self) -> None:
        assert ancestors("a/b/c") == ["a", "a/b", "a/b/c"]
        assert ancestors("") == []
        assert (split_path("a/b/c"), split_path("a")) == (("a/b", "c"), ("", "a"))

    def test_moved_path_retains_the_subfolder(self) -> None:
        assert [moved_path(path, "a/b", "x") for path in ("a/b", "a/b/c/b")] == ["x", "x/c/b"]


class TestField:
    def test_folder_is_stored_in_normalised_form(self, api: Api) -> None:
        video = api.create(folder=f" Caf{ACUTE} / b")
        assert video["folder"] == "Caf\N{LATIN SMALL LETTER E WITH ACUTE}/b"
        patched = api.patch(f"/v1/videos/{video['videoId']}", {"folder": "x / y"}).json
        assert patched["folder"] == "x/y"

    def test_invalid_folder_is_422_and_names_the_field(self, api: Api) -> None:
        reply = api.post("/v1/videos", {"title": "t", "folder": "a//b"})
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/folder")

    def test_only_the_owner_and_admins_see_the_folder(self, api: Api) -> None:
        path = f"/v1/videos/{api.publish(folder='a')['videoId']}"
        assert [api.get(path, user=user).json.get("folder") for user in ("alice", "admin", "bob")] == ["a", "a", None]


class TestEntry:
    """The index entry of a video's folder. Each write of the video updates the entry in the same transaction."""

    def test_entry_follows_the_video_at_every_write(self, api: Api, table: Table) -> None:
        video = api.create(folder="a/b")
        path = f"/v1/videos/{video['videoId']}"
        folder_field = f"FOLDERS#alice {{}}//{NOW:012}/{video['videoId']}"
        assert entry(table, video) == folder_field.format("a/b")
        api.patch(path, {"folder": "a/c"})
        assert entry(table, video) == folder_field.format("a/c")
        api.patch(path, {"title": "u"})
        api.delete(path)
        assert entry(table, video) is None
        api.post(f"{path}/restore")
        assert entry(table, video) == folder_field.format("a/c")
        api.patch(path, {"folder": None})
        assert entry(table, video) is None

    def test_change_of_another_field_does_not_write_the_entry(self, api: Api, table: Table) -> None:
        video = api.create(folder="a")
        with record_operations(table.client) as operations:
            api.patch(f"/v1/videos/{video['videoId']}", {"title": "u"})
        assert [operation.name for operation in operations] == ["GetItem", "UpdateItem"]


class TestList:
    @pytest.fixture
    def library(self, api: Api) -> Api:
        """Create videos of alice in several folders. Each title begins with the folder. The videos were created one
        second apart."""
        for second, folder in enumerate(["a", "a/b", "a/b/c", "a/bc", "a", "ab", "", "a/b"]):
            folder_field = {"folder": folder} if folder else {}
            api.publish("alice", title=f"{folder}{second}", createdAt=1000 + second, **folder_field)
        api.publish("bob", title="bob", folder="a")
        return api

    def test_folder_lists_its_own_videos_newest_first(self, library: Api) -> None:
        assert titles(library, "folder=a") == ["a4", "a0"]
        assert titles(library, "folder=a/b&order=asc") == ["a/b1", "a/b7"]
        assert titles(library, "folder=never") == []

    def test_subfolders_add_all_levels_below_but_no_folder_with_a_longer_name(self, library: Api) -> None:
        assert titles(library, "folder=a&subfolders=true&order=asc") == ["a0", "a4", "a/b1", "a/b7", "a/b/c2", "a/bc3"]
        assert titles(library, "folder=a/b&subfolders=true&order=asc") == ["a/b1", "a/b7", "a/b/c2"]

    def test_pages_are_full_and_have_a_cursor(self, library: Api) -> None:
        listed, cursor = [], ""
        for size in (2, 2, 2):
            page = library.get("/v1/videos", query=f"folder=a&subfolders=true&order=asc&limit=2{cursor}").json
            assert len(page["items"]) == size
            listed += [item["title"] for item in page["items"]]
            cursor = f"&cursor={page['nextCursor']}"
        assert (len(set(listed)), cursor) == (6, "&cursor=None")

    def test_one_query_lists_any_level(self, library: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            titles(library, "folder=a&subfolders=true")
        assert [operation.name for operation in operations] == ["Query", "BatchGetItem"]

    def test_admin_lists_the_folder_of_another_user(self, library: Api) -> None:
        assert titles(library, "folder=a&userId=bob", "admin") == ["bob"]
        assert titles(library, "folder=a", "admin") == []

    def test_other_users_are_refused_whether_or_not_the_folder_exists(self, library: Api) -> None:
        replies = [
            library.get("/v1/videos", query=f"folder={name}&userId=alice", user="bob") for name in ("a", "never")
        ]
        assert [(reply.status, reply.slug) for reply in replies] == [(403, "forbidden")] * 2

    def test_filters_apply_to_the_list_of_a_folder(self, library: Api) -> None:
        library.publish("alice", title="film", createdAt=5, folder="a", category="films")
        assert titles(library, "folder=a&category=films") == ["film"]

    @pytest.mark.parametrize("query", ["tag=t", "region=NZ", "from=1", "to=9", "sort=duration", "status=deleted"])
    def test_selectors_and_orders_without_an_index_are_refused(self, api: Api, query: str) -> None:
        reply = api.get("/v1/videos", query=f"folder=a&{query}")
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, query.partition("=")[0])

    def test_stale_entry_is_not_listed(self, library: Api, table: Table) -> None:
        video = library.publish("alice", title="x", folder="z")
        stale = table.get(FOLDER.key(videoId=video["videoId"])) or {}
        library.patch(f"/v1/videos/{video['videoId']}", {"folder": "y"})
        table.write(table.put(stale))
        assert titles(library, "folder=z") == []


class TestCounts:
    def counted(self, api: Api, path: str, user: str = "alice", query: str = "") -> tuple[int, int]:
        folder = api.get(f"/v1/folders/{path}", user=user, query=query).json
        return folder["videos"], folder["direct"]

    def test_each_folder_counts_its_own_videos_and_the_videos_below_it(
        self, api: Api, background: BackgroundWork
    ) -> None:
        for folder in ("a", "a/b", "a/b/c", "a/b/c", "a/bc"):
            api.create(folder=folder)
        api.create()
        background.settle_totals()
        assert [self.counted(api, path) for path in ("a", "a/b", "a/b/c", "a/bc", "b")] == [
            *((5, 1), (3, 1), (2, 2), (1, 1), (0, 0))
        ]

    def test_folders_list_their_direct_subfolders_by_name(self, api: Api, background: BackgroundWork) -> None:
        for folder in ("a/b/c", "a/d", "e", "a b", "#1", "%25"):
            api.create(folder=folder)
        background.settle_totals()
        assert names(api, "/v1/folders") == ["#1", "%25", "a", "a b", "e"]
        assert names(api, "/v1/folders/a") == ["a/b", "a/d"]
        assert names(api, "/v1/folders/a%2Fb") == names(api, "/v1/folders/a/b") == ["a/b/c"]
        assert names(api, "/v1/folders/a/d") == []
        assert api.get(f"/v1/folders/{quote('%25', safe='')}").json["folder"] == "%25"

    def test_counts_follow_moves_deletions_restores_and_removals(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video = api.create(folder="a/b")
        path = f"/v1/videos/{video['videoId']}"
        seen = []
        changes: tuple[Callable[[], object], ...] = (
            lambda: None,
            lambda: api.patch(path, {"folder": "a/c"}),
            lambda: api.delete(path),
            lambda: api.post(f"{path}/restore"),
            lambda: table.delete(VIDEO.key(videoId=video["videoId"])),
        )
        for change in changes:
            change()
            background.settle_totals()
            seen.append([self.counted(api, folder)[0] for folder in ("a", "a/b", "a/c")])
        assert seen == [[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 0, 0]]
        assert names(api, "/v1/folders") == []

    def test_pages_are_full_and_omit_empty_folders(self, api: Api, background: BackgroundWork) -> None:
        videos = [api.create(folder=f"f{number}") for number in range(9)]
        background.settle_totals()
        for video in videos[:6]:
            api.patch(f"/v1/videos/{video['videoId']}", {"folder": None})
        background.settle_totals()
        first = api.get("/v1/folders", query="limit=2").json
        second = api.get("/v1/folders", query=f"limit=2&cursor={first['nextCursor']}").json
        assert [item["folder"] for item in first["items"] + second["items"]] == ["f6", "f7", "f8"]
        assert second["nextCursor"] is None

    def test_admin_reads_the_folders_of_another_user(self, api: Api, background: BackgroundWork) -> None:
        api.create(folder="a")
        background.settle_totals()
        assert self.counted(api, "a", "admin") == (0, 0)
        assert self.counted(api, "a", "admin", "userId=alice") == (1, 1)

    @pytest.mark.parametrize("path", ["a%2F%2Fb", "a/", "x" * 201, "...", "a%0Ab", "/".join("abcdefghijk")])
    def test_invalid_path_is_refused(self, api: Api, path: str) -> None:
        reply = api.get(f"/v1/folders/{path}")
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "folder")
