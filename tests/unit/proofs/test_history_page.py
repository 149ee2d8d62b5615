"""docs/history.md says what the service answers: its story is carried out, and the answers on the page are the real ones."""

import json
import re
from collections.abc import Sequence
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
"""Change set of an import that renames all films."""
IDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(500)]
HUNDREDS = [range(start, start + 100) for start in range(0, 500, 100)]
NAMES = ("changesetId", "revertId")


class Story(RevertTestbed):
    """Hundreds of Alice's films."""

    def __init__(self, api: Api, hundreds: Sequence[range]) -> None:
        super().__init__(api)
        self.hundreds = hundreds
        self.ids = IDS[: hundreds[-1].stop]
        self.corrected = self.ids[::10]
        for hundred in hundreds:
            videos = ({"videoId": IDS[n], "userId": "alice", "title": f"Film {n}"} for n in hundred)
            self._batch([{"op": "create", "video": video} for video in videos], "admin")

    def _batch(self, operations: list[dict[str, Any]], user: str) -> None:
        self.write("POST", "/v1/videos/batch", {"operations": operations}, user=user)

    def rename(self) -> None:
        """Rename as the script does."""
        for hundred in self.hundreds:
            self._batch(
                [{"op": "patch", "videoId": IDS[n], "patch": {"title": f"film_{n}.mov"}} for n in hundred], "alice"
            )

    def rename_by_import(self) -> None:
        """The same as one change set."""
        importer = Caller.job("import").acting_for(IMPORT)
        for n, video_id in enumerate(self.ids):
            self.videos.change(
                video_id, importer, self.now, partial(apply_patch, patch={"title": f"film_{n}.mov"}, now=self.now)
            )
        self.settle()

    def correct(self) -> None:
        """Correct titles as Bob does."""
        for video_id in self.corrected:
            self.write("PATCH", f"/v1/videos/{video_id}", {"title": "Right"}, user="bob", scopes=ADMIN_SCOPES)

    def titles(self) -> dict[str, str]:
        """The title of each film."""
        return {video_id: self.item(video_id)["title"] for video_id in self.ids}

    def assert_reverted(self) -> None:
        """Nine of ten are as before, and the tenth as Bob left it."""
        assert self.titles() == {video_id: f"Film {n}" if n % 10 else "Right" for n, video_id in enumerate(self.ids)}


def comparable(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without its items and the members that vary between requests."""
    return {name: value for name, value in response.items() if name not in (*NAMES, "items", "nextCursor")}


def untimed(item: dict[str, Any]) -> dict[str, Any]:
    """A part of a report, whatever the time."""
    return item | {"skipped": [field | {"at": 0} for field in item["skipped"]]}


def test_the_pages_answers_are_those_to_its_script_and_the_undo_of_each_hundred(api: Api) -> None:
    story = Story(api, HUNDREDS[:2])  # the others would be the same again
    story.rename()
    story.correct()
    path = f"/v1/videos/{IDS[0]}"
    assert story.api.get(f"{path}/diff", query="from=1&to=2").json == DIFF

    sets = [story.entries(IDS[hundred[1]])[0]["correlationId"] for hundred in story.hundreds]
    dry = story.revert_and_settle(sets[0], user="alice", query="dryRun=true")
    assert comparable(dry) == comparable(UNDO)
    two = [item for item in dry["items"] if item["videoId"] in (IDS[0], IDS[1])]
    assert list(map(untimed, two)) == list(map(untimed, UNDO["items"]))
    for changeset in sets:
        assert comparable(story.revert_and_settle(changeset, user="alice")) == comparable(UNDO) | {"dryRun": False}
    story.assert_reverted()

    reverted = story.revert_and_settle(sets[0], user="alice")
    assert (reverted["reverted"], reverted["unchanged"], reverted["skipped"]) == (0, 90, 10)
    assert "`reverted` is then 0, `unchanged` 90, and `skipped` 10." in " ".join(PAGE.split())

    last = json.loads(re.findall(r"^`(\{\"toVersion\".*\})`", PAGE, re.MULTILINE)[0])
    assert story.revert(IDS[0], last.pop("toVersion"), **last).status == 200
    assert story.item(IDS[0])["title"] == "Film 0"


def test_the_pages_answers_are_those_to_the_undo_of_an_import_of_all_five_hundred(api: Api) -> None:
    story = Story(api, HUNDREDS)
    story.rename_by_import()
    story.correct()
    begun = story.undo(IMPORT, user="alice")
    assert (begun.status, begun.headers["location"]) == (202, f"reverts/{begun.json['revertId']}")
    story.work()
    report = story.run(IMPORT, begun.json["revertId"], user="alice").json
    assert comparable(report) == comparable(UNDO) | {"dryRun": False, "examined": 500, "reverted": 450, "skipped": 50}
    assert {item["videoId"] for item in report["items"]} == set(story.corrected)
    story.assert_reverted()


def test_every_reason_is_explained() -> None:
    assert set(REASONS) <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
