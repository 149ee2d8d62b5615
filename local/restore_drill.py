"""`make restore-drill`: fills a table, exports it, damages it, restores it, and checks that no data was lost.

The drill uses a separate MiniStack and deployment. Except for the damage, the drill uses only tools of an operator:
`python -m tools` and HTTP.
"""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from local import ROOT, LocalError, exit_status
from local.aws import Aws
from local.deployment import ReportProgress, environment
from local.issuer import USERS
from local.run import service_in
from shared.aws.records import key_of
from shared.core.attributes import decode_item, encode_item
from shared.schema import ENTRY, MEMBERSHIP, PARTITION_KEY, TABLE_NAME, VIDEO, VIEW_COUNTER

TITLES = 40
PURGE_SECONDS = 300
"""Maximum seconds until the service must have purged the child items of deleted videos."""
STAMPS = ("updatedAt", "updatedBy", "updatedAs", "updatedFor", "writeId", "version", "schemaVersion")
"""Names of the attributes that every repair writes. Comparisons ignore these attributes."""
LOST = "Lost by a bad change"

Request = Callable[[str, str, str, Any], Any]
"""Function that sends a request, given method, path, user and body. It returns the response's JSON, and raises an error
if the request fails."""
RunTools = Callable[[Sequence[str], Mapping[str, str]], "subprocess.CompletedProcess[str]"]
"""Function that runs `python -m tools`, given the arguments and the environment variables."""
Line = dict[str, Any]
Lines = dict[tuple[str, ...], Line]
"""Lines of an export, by entity and identifiers."""


@dataclass
class RestoreDrill:
    """One run of the drill. The table must be empty at the start."""

    aws: Aws
    table: str
    folder: Path
    request: Request
    next_second: Callable[[], int]
    """Function that waits for the next second and returns it in epoch seconds."""
    await_purge: Callable[[Sequence[str], Callable[[], bool]], None]
    """Function that waits until the child items of deleted videos are purged.

    It receives the videoIds, and a predicate that returns `True` after the purge.
    """
    report_progress: ReportProgress
    run_tools: RunTools = field(default_factory=lambda: run_program)
    """Function that runs a command of the tools."""
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self._environment = environment(self.aws, self.folder)
        self.client = self.aws.client("dynamodb")

    def run(self) -> None:
        """Run the drill. Raises LocalError at the first failed check."""
        own = self._fill()
        copy = self._export("copy")
        self.report_progress(f"Copied: {len(copy)} lines")
        self.request("PATCH", f"/v1/videos/{own[0]}", "alice", {"title": "Changed before the damage"})
        since = self.next_second()
        self._damage(copy)
        until = self.next_second()
        self.request("PATCH", f"/v1/videos/{own[1]}", "alice", {"title": "Changed after the damage"})
        new = self.request("POST", "/v1/videos", "alice", {"title": "Created after the damage"})["videoId"]
        damaged = self._export("damaged")
        if not self._differing(copy, damaged, own):
            raise LocalError("The damage changed nothing. Adapt the drill to the table.")

        restore = (
            "restore",
            "--from",
            str(self.folder / "copy.jsonl.gz"),
            "--since",
            str(since),
            "--until",
            str(until),
        )
        self._tools(*restore, "--dry-run")
        if self._export("rehearsed") != damaged:
            raise LocalError("The dry run changed the table.")
        self.report_progress("Rehearsed: the dry run changed nothing")
        self.report_progress(f"Restored: {self._tools(*restore)}")
        again = self._tools(*restore)
        if not again.startswith("0 restored, 0 repaired"):
            raise LocalError(f"The second restore changed items: {again}")
        self.report_progress("Restored again: nothing was left to restore")
        self._tools("reconcile", "--repair", may_find=True)
        self.report_progress(f"Reconciled: {self._tools('reconcile')}")
        self._verify(copy, own, new)

    def _fill(self) -> list[str]:
        """Create a generated catalogue and user data, and return the ids of two videos of alice."""
        catalogue = self.folder / "catalogue"
        self._tools("generate", str(catalogue), "--titles", str(TITLES), table=False)
        self._tools("import-imdb", str(catalogue))
        own = [self.request("POST", "/v1/videos", "alice", {"title": f"Film {n}"})["videoId"] for n in (1, 2)]
        films = self._listed("")[:3]
        playlist = self.request("POST", "/v1/playlists", "bob", {"title": "This evening"})["playlistId"]
        for film in films:
            self.request("POST", f"/v1/playlists/{playlist}/entries", "bob", {"videoId": film})
            self.request("PUT", f"/v1/videos/{film}/rating", "bob", {"value": 9})
            chapters = [{"start": 0, "title": "All of it"}]
            self.request("PUT", f"/v1/videos/{film}/chapters", "admin", {"chapters": chapters})
            self.request("POST", f"/v1/videos/{film}/views", "bob", None)
            self.request("POST", f"/v1/videos/{film}/views", "alice", None)
        self._tools("reconcile", "--repair", may_find=True)
        self.report_progress(f"Filled: {TITLES} titles, and the playlists, ratings and views of users")
        return own

    def _damage(self, copy: Lines) -> None:
        """Damage the table: delete and alter items directly in the table, and change many videos by requests to the
        service."""
        entries = [line for line in copy.values() if line["entity"] == "Entry"]
        # One deleted video is in a playlist, so the service also deletes the video's entry from the playlist.
        listed = min(line["videoId"] for line in entries)
        videos = sorted(key[1] for key in copy if key[0] == "Video" and copy[key]["userId"] == "imdb")
        videos.sort(key=lambda video_id: video_id != listed)
        gone, altered, changed = videos[:4], videos[4:9], videos[9:20]
        for video_id in gone:
            partition = VIDEO.key(videoId=video_id)[PARTITION_KEY]
            items = self.client.query(
                TableName=self.table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": partition}},
            )["Items"]
            for item in items:
                self.client.delete_item(TableName=self.table, Key=key_of(item))
        for video_id in altered:
            self._alter(VIDEO.key(videoId=video_id), {"title": LOST})
        self.await_purge(
            gone, lambda: not any(map(self._is_listed, (line for line in entries if line["videoId"] in gone)))
        )
        self.report_progress(
            f"Purged: {len(gone)} videos deleted from the table, and removed from playlists by the service"
        )
        for line in copy.values():
            if line["entity"] == "Views" and line["videoId"] not in gone:
                self._alter(VIEW_COUNTER.key(videoId=line["videoId"], shard=0), {"views": 0})
        self._delete_half(next(line for line in entries if line["videoId"] not in gone))
        for video_id in changed:
            self.request("PATCH", f"/v1/videos/{video_id}", "admin", {"title": LOST, "tags": ["lost"]})
        self.report_progress(
            f"Damaged: {len(altered)} videos altered, {len(changed)} changed by requests, view counts reset and a playlist entry lost"
        )

    def _alter(self, key: Mapping[str, str], values: Mapping[str, Any]) -> None:
        stored = self.client.get_item(TableName=self.table, Key=encode_item(key), ConsistentRead=True)["Item"]
        self.client.put_item(TableName=self.table, Item=encode_item(decode_item(stored) | dict(values)))

    def _is_listed(self, line: Line) -> bool:
        key = MEMBERSHIP.key(playlistId=line["playlistId"], videoId=line["videoId"])
        return "Item" in self.client.get_item(TableName=self.table, Key=encode_item(key), ConsistentRead=True)

    def _delete_half(self, line: Line) -> None:
        """Delete the item ENTRY of a playlist entry. The item MEMBERSHIP of the same entry remains."""
        key = ENTRY.key(**{name: line[name] for name in ("playlistId", "rank", "videoId")})
        self.client.delete_item(TableName=self.table, Key=encode_item(key))

    def _verify(self, copy: Lines, own: list[str], new: str) -> None:
        restored = self._export("restored")
        wrong = self._differing(copy, restored, own)
        if wrong:
            raise LocalError(f"{len(wrong)} restored lines differ from the copy, such as {wrong[0]}.")
        titles = [restored[("Video", video_id)]["title"] for video_id in (*own, new)]
        if titles != ["Changed before the damage", "Changed after the damage", "Created after the damage"]:
            raise LocalError(f"Later changes of users are lost: {titles}.")
        extra = restored.keys() - copy.keys()
        if extra != {("Video", new)}:
            raise LocalError(f"The restored table has unexpected items: {sorted(extra)[:3]}.")
        self.report_progress(
            "Verified: all items are restored, and users' changes before and after the damage are kept"
        )
        published = [line for key, line in copy.items() if key[0] == "Video" and line.get("visibility") == "public"]
        for query, wanted in {
            "": len(published),
            f"category={published[0]['category']}": sum(
                line.get("category") == published[0]["category"] for line in published
            ),
            f"tag={published[0]['tags'][0]}": sum(
                published[0]["tags"][0] in line.get("tags", ()) for line in published
            ),
            "tag=lost": 0,
        }.items():
            if len(listed := self._listed(query)) != wanted:
                raise LocalError(f"The list {query or 'of all'} has {len(listed)} videos, not {wanted}.")
        (playlist,) = {line["playlistId"] for line in copy.values() if line["entity"] == "Entry"}
        entries = self.request("GET", f"/v1/playlists/{playlist}/entries", "bob", None)["items"]
        ranked = sorted((line for line in copy.values() if line["entity"] == "Entry"), key=lambda line: line["rank"])
        if [entry["video"]["videoId"] for entry in entries] != [line["videoId"] for line in ranked]:
            raise LocalError("The playlist differs from before.")
        self.report_progress("Verified: lists, a category, tags and a playlist have the same videos as before")

    def _listed(self, query: str) -> list[str]:
        answer = self.request("GET", f"/v1/videos?from=0&limit=100&{query}".rstrip("&"), "bob", None)
        return [video["videoId"] for video in answer["items"]]

    def _differing(self, copy: Lines, present: Lines, changed: list[str]) -> list[tuple[str, ...]]:
        """Compare two exports. Return the keys of the lines in `copy` that are missing in `present`, or have different
        content there.

        Skips the lines of videos with ids in `changed`.
        """
        kept = {key: line for key, line in copy.items() if key[:2] not in [("Video", video_id) for video_id in changed]}
        return [key for key, line in kept.items() if _content(present.get(key, {})) != _content(line)]

    def _export(self, name: str) -> Lines:
        file = self.folder / f"{name}.jsonl.gz"
        self._tools("export", str(file))
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            exported = [json.loads(line) for line in lines]
        names = ("videoId", "playlistId", "personId", "region", "language", "kind")
        return {
            (
                line["entity"],
                *(str(line[name]) for name in names if name in line),
                *([line["userId"]] if line["entity"] == "Rating" else []),
            ): line
            for line in exported
        }

    def _tools(self, *arguments: str, table: bool = True, may_find: bool = False) -> str:
        """Run a command of `python -m tools`. Returns the last line of output that begins with a digit, or an empty
        text.

        With `may_find`, the command may exit with status 1, by which `reconcile` reports that discrepancies remain.
        With `table`, the command gets the name of the table.
        """
        done = self.run_tools([*arguments, *(["--table", self.table] if table else [])], self._environment)
        if done.returncode and not (may_find and done.returncode == 1):
            raise LocalError(f"python -m tools {' '.join(arguments)} failed: {(done.stderr or done.stdout)[-2000:]}")
        results = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
        return results[-1] if results else ""


def run_program(arguments: Sequence[str], variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of the tools as a program."""
    command = [sys.executable, "-m", "tools", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def _content(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in STAMPS}


def next_second() -> int:
    """Wait for the next second, and return that second in epoch seconds.

    The service stores times as whole seconds. Therefore writes before and after this call have different times.
    """
    end = int(time.time()) + 1
    time.sleep(max(0.0, end - time.time()))  # until the clock shows the next whole second
    return end


def await_purge(_: Sequence[str], is_done: Callable[[], bool]) -> None:
    """Wait until the deployed service has finished the purge. Raises LocalError after PURGE_SECONDS."""
    end = time.monotonic() + PURGE_SECONDS
    while not is_done():
        if time.monotonic() > end:
            raise LocalError(f"The items of removed videos were not purged within {PURGE_SECONDS} seconds.")
        time.sleep(1)  # a finished purge sends no event, so the table is polled


def main() -> int:
    """Run the drill and return the exit status."""
    return exit_status(_drill)


def _drill() -> None:
    started = time.monotonic()

    def report_progress(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="restore-drill-") as name:
        folder = Path(name)
        with service_in(folder, report_progress) as (aws, issuer), httpx.Client(timeout=120, trust_env=False) as http:
            tokens = {user: issuer.mint(user, scopes) for user, scopes in USERS.items()}

            def request(method: str, path: str, user: str, body: Any) -> Any:
                headers = {"Authorization": f"Bearer {tokens[user]}"}
                content = {} if body is None else {"json": body}
                answer = http.request(method, aws.endpoint + path, headers=headers, **content)
                if answer.status_code >= 300:
                    raise LocalError(f"{method} {path} returned {answer.status_code}: {answer.text[:500]}")
                return answer.json()

            RestoreDrill(aws, TABLE_NAME, folder, request, next_second, await_purge, report_progress).run()
    report_progress("The drill has passed.")


if __name__ == "__main__":
    sys.exit(main())
