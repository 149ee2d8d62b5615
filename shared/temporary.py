"""Temporary folders whose names contain the id of their process. A later process deletes them if their process was
killed.

Lambda retains the files when it restarts a function in the same environment. On a laptop, all functions share one
temporary folder.
"""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir


def clear_folders(prefix: str) -> None:
    """Delete each folder with this prefix that belongs to an ended process, or to this process.

    Call this function when the process starts, because after a restart, the process can have the same id as before.
    """
    for folder in Path(gettempdir()).glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and (int(pid) == os.getpid() or not _runs(int(pid))):
            shutil.rmtree(folder, ignore_errors=True)


def own_folder(prefix: str) -> Path:
    """Call `clear_folders`, and then create the empty folder of this process."""
    clear_folders(prefix)
    own = Path(gettempdir()) / f"{prefix}{os.getpid()}"
    own.mkdir(mode=0o700)
    return own


def work_folder(prefix: str) -> TemporaryDirectory[str]:
    """Return a context manager that creates a folder, and deletes the folder on exit. If the process is killed, a later
    call of `clear_folders` deletes the folder."""
    return TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process belongs to another user
    return True
