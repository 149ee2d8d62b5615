"""Prints a video's audit trail and its earlier versions.

Stored values are user input, so the commands print only printable characters.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from shared.aws.dynamodb import Table
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.changes import Change
from shared.core.errors import Gone, LimitReached, NotFound
from shared.history.as_of import PastVersions
from shared.history.entries import UNKNOWN, document
from shared.history.trail import LARGEST_QUERY, AuditStore
from shared.routes import ADMIN, READ
from shared.schema import CHANGESET, VIDEO
from tools import ToolError
from tools.rate_limit import retry_while_behind

READER = Caller("tools:history", frozenset({READ, ADMIN}))
"""Caller that reads the trail. The scope ADMIN allows it to read the videos of every user."""

NEWEST = 50
"""Default maximum number of entries that `history` prints."""

LONGEST = 100
"""Maximum number of characters of a printed value. `--json` prints whole values."""

TIMES = ("createdAt", "updatedAt", "publishAt", "expiresAt", "purgeAt", "deletedAt", "addedAt")
"""Names of the fields that contain epoch seconds. They are printed as UTC times."""

INDENT = "    "


class Histories:
    """Reader of the audit entries and the earlier versions of videos."""

    def __init__(
        self,
        table: Table,
        trail: AuditStore,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table = table
        self._trail = trail
        self._clock = clock
        self._sleep = sleep

    def newest(self, video_id: str, limit: int) -> tuple[list[Item], bool]:
        """Return the newest audit entries of a video, oldest first, and whether there are older ones.

        Raises ToolError if neither the table nor the trail has the video.
        """
        entries: list[Item] = []
        now, after = int(self._clock()), None
        while len(entries) < limit:
            wanted = min(limit - len(entries), LARGEST_QUERY)
            page = self._trail.list_for_video(video_id, now, limit=wanted, after=after)
            entries += page.items
            after = page.resume
            if after is None:
                break
        if not entries and self._table.get(VIDEO.key(videoId=video_id)) is None:
            raise ToolError(f"The video {video_id} does not exist, and the audit trail has no entries of it.")
        return entries[::-1], after is not None

    def version(self, video_id: str, number: int) -> dict[str, Any]:
        """Return the video's document as it was in a version. Waits while the trail lags.

        Raises ToolError if the version never existed or is no longer retained.
        """
        return self._retry_while_behind(lambda past, now: past.read(video_id, READER, now, version=number)[0])

    def changes(self, video_id: str, start: int, end: int) -> dict[str, Any]:
        """Return the changes between two versions, as the operation `getDiff` does. Waits and raises as `version` does."""
        return self._retry_while_behind(lambda past, now: past.changes(video_id, READER, now, start, end))

    def _retry_while_behind(self, read: Callable[[PastVersions, int], dict[str, Any]]) -> dict[str, Any]:
        past = PastVersions(self._table, self._trail)
        try:
            return retry_while_behind(lambda: read(past, int(self._clock())), self._sleep)
        except (NotFound, Gone, LimitReached) as error:
            raise ToolError(error.detail) from error


def show_trail(histories: Histories, video_id: str, *, limit: int, as_json: bool) -> int:
    """Print the newest audit entries of a video, oldest first. Returns the exit status."""
    entries, has_older = histories.newest(video_id, limit)
    if as_json:
        for entry in entries:
            print(json.dumps(document(entry), ensure_ascii=False))
        return 0
    console = Console(highlight=False, soft_wrap=True)
    for entry in entries:
        for line in describe_entry(entry):
            console.print(line)
    if not entries:
        print(
            "The audit trail has no entries of this video. It may be some seconds behind, or all entries have expired."
        )
    if has_older:
        print(f"These are the newest {len(entries)} entries; --limit {2 * limit} also shows older ones.")
    return 0


def show_version(histories: Histories, video_id: str, number: int) -> int:
    """Print the document of a version as JSON. Returns the exit status."""
    print(json.dumps(histories.version(video_id, number), indent=2, ensure_ascii=False))
    return 0


def show_difference(histories: Histories, video_id: str, start: int, end: int, *, as_json: bool) -> int:
    """Print the changes of a video between two versions. Returns the exit status."""
    difference = histories.changes(video_id, start, end)
    if as_json:
        print(json.dumps(difference, ensure_ascii=False))
        return 0
    console = Console(highlight=False, soft_wrap=True)
    for change in difference["changes"]:
        console.print(describe_change(change))
    if not difference["changes"]:
        print(f"Versions {start} and {end} are the same.")
    return 0


def describe_entry(entry: Mapping[str, Any]) -> Iterator[Text]:
    """Describe an audit entry: one line with time, author and action, then one line per changed field."""
    line = Text()
    line.append(moment(entry["at"] // 1000), "dim")
    line.append(f"  {who(entry['by'])}", "bold")
    line.append(f"  {_deed(entry)}")
    if entry["entity"] == "video" and "version" in entry:
        line.append(f", version {entry['version']}")
    if CHANGESET in entry:
        line.append(f"  [change set {format_value(entry[CHANGESET])}]", "cyan")
    yield line
    for change in entry["changes"]:
        yield Text(INDENT) + describe_change(change)
    if entry.get("omitted"):
        yield Text(f"{INDENT}and {entry['omitted']} more fields, too large to store")


def describe_change(change: Change) -> Text:
    """Describe the change of a field, such as `title: A film -> A better film`."""
    name = named(str(change["field"]))
    line = Text(f"{name}: ", "bold")
    if "to" not in change:
        line.append("removed, was ")
        line.append(_value(change, "from"), "red")
    elif "from" not in change:
        line.append("set to ")
        line.append(_value(change, "to"), "green")
    else:
        line.append(_value(change, "from"), "red")
        line.append(" -> ")
        line.append(_value(change, "to"), "green")
    return line


def subject(entry: Mapping[str, Any]) -> str:
    """Return the display name of the item that an audit entry describes, such as `credit of nm0000001`."""
    match entry["entity"]:
        case "credit":
            return f"credit of {format_value(entry['personId'])}"
        case "release":
            language = f" in {format_value(entry['language'])}" if entry.get("language") else ""
            return f"release for {format_value(entry['region'])}{language}"
        case "captions":
            return f"captions in {format_value(entry['language'])}"
        case "chapters":
            return "chapters"
        case "rating":
            return "imported rating"
        case "playlist":
            return f"playlist {format_value(entry['playlistId'])}"
        case "job":
            return f"job {format_value(entry['kind'])}"
        case _:
            return f"video {format_value(entry['videoId'])}"


def who(author: Mapping[str, Any]) -> str:
    """Return the display name of the author of a change."""
    if author == UNKNOWN:
        return "unknown (not through the service)"
    return "DynamoDB" if author["kind"] == "service" else format_value(author["id"])


def named(pointer: str) -> str:
    """Return the display name of a field: its JSON Pointer without the first slash, or `everything` if it is empty."""
    return format_value(pointer.removeprefix("/")) or "everything"


def moment(seconds: int) -> str:
    """Format epoch seconds as a UTC time."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def format_value(value: Value) -> str:
    """Format a value on one line of at most LONGEST characters, safe for a terminal. Printable text is not quoted,
    unless it is empty or has spaces at its ends. Other values are printed as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    if text != text.strip() or text == "":
        text = json.dumps(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _deed(entry: Mapping[str, Any]) -> str:
    action = str(entry["action"])
    if action == "expired":
        action = "removed, because it expired"
    if entry["entity"] == "video":
        return action
    attempt = f", attempt {entry['attempt']}" if "attempt" in entry else ""
    return f"{subject(entry)} {action}{attempt}"


def _value(change: Change, side: str) -> str:
    value = change[side]
    if isinstance(value, int) and str(change["field"]).rpartition("/")[2] in TIMES:
        return moment(value)
    size = change.get(f"{side}Bytes")
    return format_value(value) + (f" ({size} bytes, truncated)" if size else "")
