"""Folders: the paths that order an owner's videos in a hierarchy, such as `clients/acme/2026`.

A folder is not an item. It exists while a video of the owner is in it or in a subfolder. The index entry of a video has
the id `clients/acme/2026//001717645200/{videoId}`. No name is empty, so `//` ends the path in each id. Therefore the
prefix `clients/acme//` selects the videos of one folder, and the prefix `clients/acme/` also the videos of its subfolders.
"""

import re
import unicodedata
from typing import TYPE_CHECKING

from shared.core.text import FOLDER

if TYPE_CHECKING:
    from shared.entities import AnyVideo

MAX_LEVELS = 10
"""Maximum number of names in a path."""
LONGEST_PATH = 200
"""Maximum number of characters of a path."""
END = "//"
"""Text that follows the folder's path in the `relId` of an entry, and in the sort key of the folder's counts."""


def folder_path(text: str) -> str:
    """Return a path in its stored form: each name in Unicode form NFC, without surrounding spaces.

    Raises ValueError if the text is not a path of at most MAX_LEVELS names and LONGEST_PATH characters.
    """
    # A name of only dots is refused, because clients resolve `.` and `..` in URLs.
    if not re.fullmatch(FOLDER, text):
        from shared.core.checks import FORMS  # here, because it loads pydantic_core, which valid paths do not need

        raise ValueError(FORMS[FOLDER])
    path = "/".join(name.strip() for name in unicodedata.normalize("NFC", text).split("/"))
    if len(path) > LONGEST_PATH:
        raise ValueError(f"must have at most {LONGEST_PATH} characters, not {len(path)}")
    return path


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is the folder or one of its subfolders."""
    return path == folder or path.startswith(f"{folder}/")


def ancestors(path: str) -> list[str]:
    """Return the path and all folders that contain it, outermost first. Empty for an empty path."""
    names = path.split("/") if path else []
    return ["/".join(names[: level + 1]) for level in range(len(names))]


def split_path(path: str) -> tuple[str, str]:
    """Return the path of the folder's parent and the folder's name. The parent of an outermost folder is empty."""
    parent, _, name = path.rpartition("/")
    return parent, name


def moved_path(path: str, source: str, target: str) -> str:
    """Return the path of a folder within `source` after `source` was renamed to `target`."""
    return target + path.removeprefix(source)


def entry_id(video: "AnyVideo") -> str:
    """Return the `relId` of the index entry of a video in a folder. Entries of one folder sort by the videos' createdAt."""
    return f"{video.get('folder', '')}{END}{video['createdAt']:012}/{video['videoId']}"


def video_id_of(entry_id: str) -> str:
    """Return the videoId in the `relId` of an entry."""
    return entry_id.rpartition("/")[2]


def entry_prefix(folder: str, *, subfolders: bool) -> str:
    """Return the prefix of the `relId` of all entries in a folder, optionally including its subfolders."""
    return f"{folder}/" if subfolders else f"{folder}{END}"
