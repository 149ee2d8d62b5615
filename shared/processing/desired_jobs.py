"""Desired jobs of a video: the jobs that its current state requires, and their inputs."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.core.attributes import Item, Value
from shared.job_kinds import KINDS

if TYPE_CHECKING:
    from shared.entities import AnyVideo


def desired_jobs(video: "AnyVideo | None") -> dict[str, Item]:
    """Return the jobs that a video's current state requires: the input of each job, by kind."""
    if video is None or video["status"] == "deleted" or "source" not in video:
        return {}
    stored: Mapping[str, Value] = video
    source = video["source"]
    source_input = {"source": source["uri"], "etag": source["etag"], "fileSize": source["fileSize"]}
    jobs: dict[str, Item] = {}
    for kind in KINDS.values():
        if kind.after_probe and "media" not in source:
            continue
        if kind.needs and kind.needs not in source["media"]:
            continue
        chosen = {name: stored[attribute] for name, attribute in kind.parameters.items() if attribute in stored}
        if kind.per_rendition:
            for name, size in source["renditions"].items():
                jobs[f"{kind.name}.{name}"] = source_input | chosen | {"rendition": {"name": name, **size}}
        else:
            jobs[kind.name] = source_input | chosen
    return jobs


def jobs_per_upload(renditions: int) -> int:
    """Return the maximum number of jobs that one upload can start."""
    return sum(renditions if kind.per_rendition else 1 for kind in KINDS.values())


def input_hash(job_input: Mapping[str, Value]) -> str:
    """Return the hash of a job's input: 32 hexadecimal digits."""
    text = json.dumps(job_input, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def state_version(video: "AnyVideo") -> str:
    """Return a string that identifies the current state of a video.

    The strings of later states are greater, even if a new video reuses the id of a deleted video.
    """
    return f"{video['source']['uploadId']}#{video['version']:015d}"
