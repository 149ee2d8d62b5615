"""Batches of views that a player stored while it was offline. Each view of a batch has its own result."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import pointer
from shared.threads import map_threads
from shared.videos.access import require_visible
from shared.videos.counters import UNCOUNTED
from shared.views.models import QueuedView
from shared.views.store import MARKER_SECONDS, View, ViewStore, ViewVerdict, require_timely
from shared.web.responses import failed_part

WORKERS = 16
"""Maximum number of views that are counted in parallel. It equals the size of the DynamoDB client's connection pool."""
LONGEST_SECONDS = 20
"""Maximum seconds from the start of a batch to the end of its last DynamoDB request. No request starts that could end
later.

The function times out after 28 s.
"""


def count_all(store: ViewStore, sent: Sequence[QueuedView], caller: Caller, now: int) -> list[dict[str, Any]]:
    """Count views, and return their results in order. A result has the ids of the view and the video. It also
    has the values of `ViewVerdict.as_response` or, if counting failed, a problem document.

    Views of the same video by the same viewer are counted in order of their times. All other views are counted in
    parallel. Raises Unavailable if the videos or counters cannot be read. In that case, no view was counted.
    """
    views = [
        View(view.videoId, view.at, view.viewerId, view.id, id_seconds=MARKER_SECONDS, watched=view.watchedMs or 0)
        for view in sent
    ]
    videos = store.videos(list(dict.fromkeys(view.video_id for view in views)), now)
    counts = store.counters.read([video_id for video_id, video in videos.items() if video])
    verdicts: dict[int, ViewVerdict] = {}
    failures: dict[int, Exception] = {}

    def judge(indexes: Sequence[int]) -> None:
        for index in indexes:
            view = views[index]
            try:
                require_timely(view.at, now)
                video = require_visible(videos[view.video_id], caller, now)
                verdicts[index] = store.judge(video, caller, now) or store.store_marker(view, caller, now)
            except Exception as error:
                # A failing view, even if a bug is the cause, must not hide the results of the other views.
                failures[index] = error

    def add(uncounted: tuple[str, Sequence[int]]) -> None:
        video_id, indexes = uncounted
        sums = Counter(str(verdicts[index].reason) for index in indexes)
        try:
            store.counters.add(video_id, sums, now)
        except Exception as error:
            failures.update(dict.fromkeys(indexes, error))

    map_threads(judge, _by_viewer(views), WORKERS)
    uncounted = defaultdict(list)
    for index, verdict in verdicts.items():
        if verdict.reason in UNCOUNTED:
            uncounted[views[index].video_id].append(index)
    map_threads(add, uncounted.items(), WORKERS)

    # The stream consumer adds these views later, so the counters do not include them yet.
    counted = Counter(views[index].video_id for index, verdict in verdicts.items() if verdict.reason is None)
    results: list[dict[str, Any]] = []
    for index, view in enumerate(views):
        result: Item = {"id": view.id, "videoId": view.video_id}
        if index in failures:
            result["problem"] = failed_part(failures[index], pointer(("views", index)))["problem"]
        else:
            result |= verdicts[index].as_response(counts[view.video_id].views + counted[view.video_id])
        results.append(result)
    return results


def _by_viewer(views: Sequence[View]) -> list[list[int]]:
    """Return groups of positions in `views`. A group has the views of one video by one viewer, in order of their times.
    Each view without a viewer is in a separate group."""
    groups: defaultdict[tuple[str, str | None, str | None], list[int]] = defaultdict(list)
    for index, view in sorted(enumerate(views), key=lambda placed: placed[1].at):
        groups[view.video_id, view.viewer_id, None if view.viewer_id else view.id].append(index)
    return list(groups.values())
