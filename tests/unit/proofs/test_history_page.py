"""The responses in `docs/history.md` are correct: the tests execute the page's example, and compare the responses."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from local.testbed.harness import ADMIN_SCOPES, Api
from shared.core.caller import Caller
from shared.history.revert_plan import REASONS
from shared.videos.video import apply_patch
from tests.reverting import RevertTestbed

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
(UNDO,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
DIFF = {
    "videoId": "00000000-0000-4000-8000-000000000000",
    "from": 1,
    "to": 2,
    "changes": [{"field": "/title", "from": "Film 0", "to": "film_0.mov"}],
}
IMPORT = "import-0d9a5f0e-6f8e-4f07-9f0c-8f3a1f9f3c55"
"""Change set id of an import that renames all videos."""
IDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(200)]
HUNDREDS = [range(start, start + 100) for start in range(0, 200, 100)]
"""Numbers of the videos in each batch. The page has five batches of a hundred videos; two are enough, because all
batches behave in the same way."""
NAMES = ("changesetId", "revertId")


class Story(RevertTestbed):
    """Service with hundreds of videos of alice, as in the page's example."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.corrected = IDS[::10]
        for hundred in HUNDREDS:
            videos = ({"videoId": IDS[n], "userId": "alice", "title": f"Film {n}"} for n in hundred)
            self._batch([{"op": "create", "video": video} for video in videos], "admin")

    def _batch(self, operations: list[dict[str, Any]], user: str) -> None:
        self.write("POST", "/v1/videos/batch", {"operations": operations}, user=user)

    def rename(self) -> None:
        """Rename all videos as the page's script does."""
        for hundred in HUNDREDS:
            self._batch(
                [{"op": "patch", "videoId": IDS[n], "patch": {"title": f"film_{n}.mov"}} for n in hundred], "alice"
            )

    def rename_by_import(self) -> None:
        """Rename all videos in one change set, as an import does."""
        importer = Caller.job("import").acting_for(IMPORT)
        for n, video_id in enumerate(IDS):
            self.videos.change(
                video_id, importer, self.now, partial(apply_patch, patch={"title": f"film_{n}.mov"}, now=self.now)
            )
        self.settle()

    def correct(self) -> None:
        """Correct titles as bob."""
        for video_id in self.corrected:
            self.write("PATCH", f"/v1/videos/{video_id}", {"title": "Right"}, user="bob", scopes=ADMIN_SCOPES)

    def titles(self) -> dict[str, str]:
        """Return the title of each video."""
        return {video_id: self.item(video_id)["title"] for video_id in IDS}

    def assert_reverted(self) -> None:
        """Assert that the revert restored nine of ten titles, and that every tenth title is bob's."""
        assert self.titles() == {video_id: f"Film {n}" if n % 10 else "Right" for n, video_id in enumerate(IDS)}


def comparable(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without its items and the members that vary between requests."""
    return {name: value for name, value in response.items() if name not in (*NAMES, "items", "nextCursor")}


def untimed(item: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a report without its times."""
    return item | {"skipped": [field | {"at": 0} for field in item["skipped"]]}


def test_page_shows_the_responses_to_the_revert_of_each_hundred(api: Api) -> None:
    story = Story(api)
    story.rename()
    story.correct()
    path = f"/v1/videos/{IDS[0]}"
    assert story.api.get(f"{path}/diff", query="from=1&to=2").json == DIFF

    sets = [story.entries(IDS[hundred[1]])[0]["correlationId"] for hundred in HUNDREDS]
    dry = story.revert_and_settle(sets[0], user="alice", query="dryRun=true")
    assert comparable(dry) == comparable(UNDO)
    named = {item["videoId"] for item in UNDO["items"]}
    shown = [item for item in dry["items"] if item["videoId"] in named]
    assert list(map(untimed, shown)) == list(map(untimed, UNDO["items"]))
    for changeset in sets:
        assert comparable(story.revert_and_settle(changeset, user="alice")) == comparable(UNDO) | {"dryRun": False}
    story.assert_reverted()

    reverted = story.revert_and_settle(sets[0], user="alice")
    assert (reverted["reverted"], reverted["unchanged"], reverted["skipped"]) == (0, 90, 10)

    last = json.loads(re.findall(r"`(\{\"toVersion\".*?\})`", PAGE, re.DOTALL)[-1])
    assert story.revert(IDS[0], last.pop("toVersion"), **last).status == 200
    assert story.item(IDS[0])["title"] == "Film 0"


def test_page_shows_the_responses_to_the_revert_of_an_import(api: Api) -> None:
    story = Story(api)
    story.rename_by_import()
    story.correct()
    begun = story.undo(IMPORT, user="alice")
    assert (begun.status, begun.headers["location"]) == (202, f"reverts/{begun.json['revertId']}")
    story.work()
    report = story.run(IMPORT, begun.json["revertId"], user="alice").json
    assert comparable(report) == comparable(UNDO) | {"dryRun": False, "examined": 200, "reverted": 180, "skipped": 20}
    assert {item["videoId"] for item in report["items"]} == set(story.corrected)
    story.assert_reverted()


def test_page_explains_every_reason() -> None:
    assert set(REASONS) <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
