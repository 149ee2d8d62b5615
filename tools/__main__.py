"""Command line of the tools. `python -m tools --help` lists the commands."""

import sys
from importlib.util import find_spec

if find_spec("botocore") is None:  # checked before the imports below need it
    sys.exit(
        "The packages of the tools are not installed in this Python. "
        "`make run` installs them. Then use .venv/bin/python -m tools."
    )

import argparse
import json
import os
import re
import shlex
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from local import STATE
from local.ports import LOOPBACK_NAMES
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.core.errors import TRANSIENT_ERRORS, ServiceError
from shared.core.text import LARGEST_USER_ID, LONGEST_USER_ID, is_user_id
from shared.feed.log import Feed
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.changesets import ChangeSets
from shared.history.revert_runs import RevertRequest, RunStore
from shared.processing.daily_quota import QuotaStore
from tools import ToolError
from tools.exporting import Export
from tools.generator import generate
from tools.history import NEWEST, Histories, show_difference, show_trail, show_version
from tools.imdb import BASICS, CREW, EPISODES, path_of
from tools.imdb_import import (
    ACCEPTED,
    CHANGED,
    CREATED,
    NOT_SELECTED,
    OF_TYPE,
    UNCHANGED,
    WITHOUT_TITLE,
    ImdbImport,
    Selection,
)
from tools.importing import LineImport
from tools.mapping import CatalogueMap
from tools.preflight import session
from tools.progress import Bars
from tools.querying import FORMATS, print_cost, run_query, saved
from tools.querying import show as show_result
from tools.rate_limit import THREADS, Pool, RateLimiter
from tools.reconcile import prove
from tools.redrive import find_pair, redrive
from tools.restoring import LineRestore, Rehearsal, RestorePlan
from tools.target import open_table, open_trail, paced, use_local_service
from tools.undo import PAGES, UNDOER, SavedRevert, UndoCommand, entries_of, show
from tools.upserting import MappedImport
from tools.work_file import WorkFile, work_file, write_report

PARTS = ("credits", "crew", "episodes", "releases", "ratings")
OPTIONAL = {"crew": CREW, "episodes": EPISODES}
"""Files of the optional parts of an import, by part. If the folder lacks a part's file, the import skips the part."""
RELEASE_YEAR = "release-year"
UNDOS = STATE / "undo"
"""Folder of the state files of interrupted undos."""
MAX_TYPES = 30
"""Maximum number of title types that a warning lists. IMDb has about ten types."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 on success, 1 on failure, 2 for invalid arguments."""
    try:
        status = _carry_out(arguments)
        sys.stdout.flush()  # Python does it at exit, where the error could not be handled
    except BrokenPipeError:
        _drop_output()
        return 1
    return status


def _carry_out(arguments: Sequence[str] | None) -> int:
    """Run one command, and return the exit status. Prints an error that the command raises. Raises BrokenPipeError if
    the reader of the output has closed the pipe."""
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        parser.exit(2)
    options = parser.parse_args(arguments)
    try:
        with _ending_like_an_interrupt(signal.SIGTERM):
            return int(options.run(options))
    except ToolError as error:
        print(error, file=sys.stderr)
    except ServiceError as error:
        advice = " Run the same command again to continue." if isinstance(error, TRANSIENT_ERRORS) else ""
        print(f"AWS returned an error: {error.detail.removesuffix('.')}.{advice}", file=sys.stderr)
    except sqlite3.Error as error:
        print(f"The state file cannot be written: {error}. Run the same command again to continue.", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{error.filename or 'A file'}: {error.strerror}.", file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped; run the same command again to continue.", file=sys.stderr)
    return 1


def _drop_output() -> None:
    """Redirect closed standard streams to the null device. Otherwise Python's flush at exit would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())


@contextmanager
def _ending_like_an_interrupt(number: signal.Signals) -> Iterator[None]:
    """Raise KeyboardInterrupt in the `with` block when the process receives the signal `number`."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools",
        description="Import, export and restore catalogues, show and revert changes, check derived data, query the "
        "archive by SQL, and move messages out of dead-letter queues.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    made = command("generate", _generate, "Generate a synthetic catalogue in the format of the IMDb files.")
    made.add_argument("folder", type=Path, help="folder to write the files to")
    made.add_argument("--titles", type=_positive, required=True, metavar="N", help="number of titles")
    made.add_argument(
        "--people", type=_positive, metavar="M", help="number of people (default: half the number of titles, plus 10)"
    )
    made.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the random numbers; the same seed generates the same files (default: 0)",
    )

    imdb = command("import-imdb", _import_imdb, "Import a folder of IMDb files: TSV, with or without gzip.")
    imdb.add_argument("folder", type=Path, help="folder with the IMDb files")
    imdb.add_argument(
        "--types",
        type=_words,
        default=frozenset(),
        metavar="movie,short",
        help="import only titles of these types (default: all types)",
    )
    imdb.add_argument("--from-year", type=_year, metavar="Y", help="import only titles released in this year or later")
    imdb.add_argument("--to-year", type=_year, metavar="Y", help="import only titles released in this year or earlier")
    imdb.add_argument(
        "--without",
        type=_parts,
        default=frozenset(),
        metavar="credits,ratings",
        help=f"do not import these parts; the parts are {', '.join(PARTS)}",
    )
    imdb.add_argument(
        "--owner", type=_owner, default="imdb", metavar="ID", help="userId of the videos' owner (default: imdb)"
    )
    imdb.add_argument(
        "--created-at",
        choices=("now", RELEASE_YEAR),
        default="now",
        help="createdAt of new videos, which determines their order in lists: the time of the import, or the start of "
        "the release year (default: now)",
    )

    lines = command("import", _import_lines, "Import a file of `export`, or a foreign catalogue by a map.")
    lines.add_argument("file", type=Path, help="JSON lines, with or without gzip; with --map also CSV or SQLite")
    lines.add_argument("--map", type=Path, metavar="FILE", help="map of a foreign catalogue (TOML)")
    how = lines.add_mutually_exclusive_group()
    how.add_argument("--compare", action="store_true", help="with --map: report the differences, and write nothing")
    how.add_argument("--follow", action="store_true", help="with --map: repeat until a run changes nothing")
    for importer in (imdb, lines):
        _add_target(importer)
        importer.add_argument(
            "--rate",
            type=_positive,
            metavar="N",
            help="write at most N items per second (default: the speed of the audit trail, about 700 changes per second "
            "and shard of the table's stream)",
        )
        importer.add_argument(
            "--state",
            type=Path,
            metavar="FILE",
            help="state file, with which the same command resumes an interrupted import",
        )
        importer.add_argument(
            "--rejects",
            type=Path,
            metavar="FILE",
            help="write the lines that were not imported, with reasons, to this file (JSON lines)",
        )

    out = command("export", _export, "Export the whole catalogue to a file of JSON lines.")
    out.add_argument("file", type=Path, help="file to write; compressed if the name ends with .gz")
    out.add_argument(
        "--dynamodb-json", action="store_true", help="write stored items, in the format of DynamoDB's import from S3"
    )
    _add_target(out)

    back = command("restore", _restore, "Restore missing and damaged items from an export or another table.")
    back.add_argument(
        "--from", dest="source", required=True, metavar="FILE|TABLE", help="copy to restore from: an export or a table"
    )
    _add_target(back)
    back.add_argument(
        "--videos", type=_ids, default=frozenset(), metavar="ID,ID", help="restore only these videos, and no playlists"
    )
    back.add_argument(
        "--since",
        type=_moment,
        metavar="T",
        help="time at which the damage began, such as 2026-01-31T12:00:00Z: replace items that users changed later",
    )
    back.add_argument(
        "--until", type=_moment, metavar="T", help="time at which the damage ended (default: it has not ended)"
    )
    back.add_argument(
        "--force", action="store_true", help="replace all items that differ, including later changes by users"
    )
    back.add_argument("--dry-run", action="store_true", help="print the changes, and write nothing")
    back.add_argument("--rate", type=_positive, metavar="N", help="write at most N items per second")

    proof = command("reconcile", _reconcile, "Check that totals and index entries are correct.")
    proof.add_argument("--repair", action="store_true", help="correct wrong totals and index entries")
    _add_target(proof)

    past = command("history", _history, "Show the changes of a video, oldest first, or an earlier version.")
    past.add_argument("video", type=str.lower, metavar="VIDEO", help="videoId of the video")
    _add_target(past)
    past.add_argument(
        "--limit", type=_positive, default=NEWEST, metavar="N", help=f"show the newest N changes (default: {NEWEST})"
    )
    past.add_argument("--json", action="store_true", help="print one line of JSON per change")
    what = past.add_mutually_exclusive_group()
    what.add_argument("--version", type=_positive, metavar="N", help="show the video at version N, as JSON")
    what.add_argument(
        "--diff", type=_positive, nargs=2, metavar=("A", "B"), help="show the changes from version A to version B"
    )

    undone = command("undo", _undo, "Revert the changes of one request or one import.")
    undone.add_argument(
        "changeset", metavar="CHANGESET", help="id of the change set, which `history` and imports print"
    )
    _add_target(undone)
    undone.add_argument("--dry-run", action="store_true", help="print the changes, and write nothing")
    undone.add_argument(
        "--force",
        type=_pointer,
        nargs="+",
        action="extend",
        default=[],
        metavar="FIELD",
        help="revert these fields even if another user has changed them since, such as title; '' means all fields",
    )
    undone.add_argument(
        "--state", type=Path, metavar="FILE", help="state file, with which the same command resumes an interrupted undo"
    )

    listen = command(
        "listen",
        _listen,
        "Create a temporary webhook, print its events until Ctrl-C, and delete the webhook.",
    )
    listen.add_argument(
        "--types",
        type=_words,
        default=frozenset(),
        metavar="video.*,job.done",
        help="print only events of these types (default: all types)",
    )
    listen.add_argument(
        "--user-id",
        type=_owner,
        metavar="ID",
        help="print only changes of this user's videos (default: of all users; with --api: your own)",
    )
    listen.add_argument("--url", metavar="URL", help="public URL of a tunnel to this machine (default: no tunnel)")
    listen.add_argument(
        "--port", type=_port, default=0, metavar="N", help="local port to listen on (default: any free port)"
    )
    listen.add_argument(
        "--api",
        metavar="URL",
        help="base URL of a deployed service; the variable TOKEN must contain a token (default: the service of "
        "`make run`)",
    )

    indexed = command("index", _index, "Rebuild the search index, or print its status.")
    indexed.add_argument("what", choices=("rebuild", "status"), help="`rebuild` also resumes an interrupted rebuild")
    _add_target(indexed)
    indexed.add_argument(
        "--bucket", metavar="NAME", help="name of the media bucket (default: the bucket of the table's deployment)"
    )

    asked = command("query", _query, "Query the archive of changes by SQL.")
    what = asked.add_mutually_exclusive_group(required=True)
    what.add_argument("sql", nargs="?", metavar="SQL", help="one SELECT statement")
    what.add_argument("--saved", metavar="NAME", help="a saved question; a wrong name lists all questions")
    _add_target(asked)
    asked.add_argument("--from", dest="start", type=_day, metavar="DAY", help="first day of a saved question")
    asked.add_argument(
        "--to", dest="end", type=_day, metavar="DAY", help="last day of a saved question (default: today)"
    )
    asked.add_argument("--format", choices=FORMATS, default="table", help="format of the result (default: table)")

    archive = command("archive", _archive, "Update the SQL tables over the archive, or erase a person from it.")
    archive.add_argument(
        "what",
        choices=("compact", "snapshot", "erase"),
        help="`compact` merges all changes, also of closed days, into the SQL tables; `snapshot` writes the current "
        "videos and the daily views",
    )
    _add_target(archive)
    archive.add_argument("--id", type=_owner, metavar="ID", help="user id, or personId of a credited person, to erase")
    archive.add_argument("--dry-run", action="store_true", help="count the entries to erase, and write nothing")
    archive.add_argument(
        "--replacement", metavar="TEXT", help="replacement of an interrupted erasure (default: random)"
    )

    back = command("redrive", _redrive, "Show the messages in a dead-letter queue, and move them back.")
    back.add_argument(
        "--queue",
        required=True,
        metavar="NAME",
        help="name of the queue, such as thumbnails; a wrong name lists all names",
    )
    where = back.add_mutually_exclusive_group()
    where.add_argument(
        "--env", default="dev", metavar="NAME", help="environment on AWS, with your AWS credentials (default: dev)"
    )
    where.add_argument("--local", action="store_true", help="use the queues of the running `make run`")
    how = back.add_mutually_exclusive_group()
    how.add_argument("--show", action="store_true", help="show the messages, and move none")
    how.add_argument("--yes", action="store_true", help="move the messages without asking for confirmation")
    back.add_argument("--limit", type=_positive, metavar="N", help="move at most N messages")
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--table", metavar="NAME", help="use this table on AWS, with your AWS credentials and region")
    target.add_argument("--local", action="store_true", help="use the table of the running `make run`")


def _command(name: str, *arguments: str, of: argparse.Namespace) -> str:
    """Return the shell-quoted command line for another command on the same table. `of` has the options of the current
    command."""
    target = ["--table", of.table] if of.table else ["--local"]
    return shlex.join(["python", "-m", "tools", name, *arguments, *target])


def _moment(text: str) -> int:
    """Parse epoch seconds or an ISO 8601 time into epoch seconds. A time without an offset is UTC."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def _day(text: str) -> date:
    """Parse a UTC day such as 2026-01-31."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-01-31") from None


def _ids(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _words(text))


def _pointer(text: str) -> str:
    """Return a field as a JSON Pointer (RFC 6901). Adds the first slash if the user omitted it."""
    return text if text == "" or text.startswith("/") else f"/{text}"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _port(text: str) -> int:
    if _positive(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _year(text: str) -> int:
    if _positive(text) > 9999:
        raise argparse.ArgumentTypeError(f"{text!r} is not a year")
    return int(text)


def _owner(text: str) -> str:
    if not is_user_id(text):
        raise argparse.ArgumentTypeError(
            f"a userId must be one line of at most {LONGEST_USER_ID} characters and {LARGEST_USER_ID} bytes in UTF-8"
        )
    if text in (".", ".."):
        raise argparse.ArgumentTypeError("a userId must not be . or .., because clients resolve them in URLs")
    return text


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def _parts(text: str) -> frozenset[str]:
    parts = _words(text)
    if not parts <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(PARTS)}")
    return parts


def _generate(options: argparse.Namespace) -> int:
    people = options.people or options.titles // 2 + 10
    with Bars().bar("Titles and people", options.titles + people, counted=True) as advance:
        generate(options.folder, options.titles, people=people, seed=options.seed, progress=advance)
    print(f"{options.titles} titles and {people} people are in {options.folder}.")
    return 0


def _import_imdb(options: argparse.Namespace) -> int:
    if options.from_year and options.to_year and options.from_year > options.to_year:
        raise ToolError(f"--from-year {options.from_year} is after --to-year {options.to_year}.")
    if not options.folder.is_dir():
        raise ToolError(f"{options.folder} is not a folder.")
    table = open_table(options.table)
    parts = frozenset(PARTS) - options.without
    notes: list[str] = []
    for part, layout in OPTIONAL.items():
        if part in parts and not path_of(options.folder, layout).exists():
            notes.append(f"{layout.file} is not in {options.folder}: importing without {part}.")
            parts -= {part}
    selection = Selection(
        options.owner,
        options.types,
        options.from_year,
        options.to_year,
        parts,
        dated_by_release=options.created_at == RELEASE_YEAR,
    )
    settings: dict[str, object] = {
        "table": options.table or "local",
        "owner": options.owner,
        "types": sorted(options.types),
        "years": [options.from_year, options.to_year],
        "without": sorted(frozenset(PARTS) - parts),
        "createdAt": options.created_at,
    }

    def run(work: WorkFile, pool: Pool, table: Table) -> None:
        ImdbImport(options.folder, table, work, selection, rate=RateLimiter(options.rate), pool=pool, bars=Bars()).run()

    unselected = "missing" if selection.takes_all else "not selected or missing"
    base = options.folder / "import"
    return _import(
        options,
        base,
        settings,
        run,
        table=table,
        of=BASICS.file,
        unselected=unselected,
        types=options.types,
        notes=notes,
    )


def _import_lines(options: argparse.Namespace) -> int:
    if not options.file.is_file():
        raise ToolError(f"The file {options.file} does not exist.")
    if options.map:
        return _compare_mapped(options) if options.compare else _import_mapped(options)
    if options.compare or options.follow:
        raise ToolError("--compare and --follow require --map.")
    table = open_table(options.table)

    def run(work: WorkFile, pool: Pool, table: Table) -> None:
        LineImport(options.file, table, work, rate=RateLimiter(options.rate), pool=pool, bars=Bars()).run()

    settings = {"table": options.table or "local", "file": options.file.name}
    return _import(options, options.file, settings, run, table=table, of=options.file.name)


def _import_mapped(options: argparse.Namespace) -> int:
    """Import a foreign catalogue. With `--follow`, repeat the import until a run changes nothing or fails. Each run is
    one change set."""
    map_ = CatalogueMap.load(options.map)
    table = open_table(options.table)
    settings = {"table": options.table or "local", "file": options.file.name, "map": map_.digest}
    has_changed = True

    def run(work: WorkFile, pool: Pool, table: Table) -> None:
        nonlocal has_changed
        rate = RateLimiter(options.rate)
        MappedImport(options.file, table, work, map_, rate=rate, pool=pool, bars=Bars()).run()
        has_changed = _has_written(work)

    while True:
        status = _import(options, options.file, settings, run, table=table, of=options.file.name)
        if status or not options.follow or not has_changed:
            return status


def _compare_mapped(options: argparse.Namespace) -> int:
    """Compare a foreign catalogue with the table. Returns the exit status, 1 if they differ."""
    map_ = CatalogueMap.load(options.map)
    table = open_table(options.table)
    report = options.rejects or options.file.with_name(f"{options.file.name}.differences.jsonl")
    with TemporaryDirectory() as temporary, work_file(Path(temporary) / "state", {}) as work:
        MappedImport(
            options.file,
            table,
            work,
            map_,
            compares=True,
            rate=RateLimiter(options.rate),
            pool=Pool(),
            bars=Bars(),
        ).run()
        write_report(work, report)
        _summarise(work, report, "")
        differs = bool(work.refused_by_reason())
        work.remove()
    print("The table differs from the source." if differs else "The table contains everything in the source.")
    return int(differs)


def _import(
    options: argparse.Namespace,
    base: Path,
    settings: dict[str, object],
    run: Callable[[WorkFile, Pool, Table], None],
    *,
    table: Table,
    of: str,
    unselected: str = "",
    types: frozenset[str] = frozenset(),
    notes: Sequence[str] = (),
) -> int:
    """Run an import, print its summary, and return the exit status.

    The default names of the state file and of the file of refused rows begin with the path `base`. The exit status is
    1 if no row of the file named `of` was accepted. The function prints `notes` before the first write.
    `unselected` completes the line "Rows of titles that are ..." of the summary. A warning lists the types in `types`
    that no title has.
    """
    state = options.state or base.with_name(f"{base.name}.state")
    rejects = options.rejects or base.with_name(f"{base.name}.rejects.jsonl")
    with work_file(state, settings, table) as work, _paced_pool(table, str(work.change_set)) as (pool, paced_table):
        _warn(work)
        undo = _command("undo", str(work.change_set), of=options)

        def announce() -> None:
            for note in notes:
                print(note, file=sys.stderr)
            print(f"This import is one change set. To revert it: {undo}")

        work.on_begin = announce
        try:
            run(work, pool, paced_table)
        finally:
            write_report(work, rejects)
            _summarise(work, rejects, unselected)
            if _has_written(work):
                print(f"To revert what was written: {undo}")
        _name_absent_types(work.outcomes().get(of, {}), of, types)
        status = _conclude(work, of)
        work.remove()
    return status


@contextmanager
def _paced_pool(table: Table, changeset_id: str) -> Iterator[tuple[Pool, Table]]:
    """Yield a pool for an import, and the table through which the import must write.

    Before each batch, the pool waits while the audit trail lags behind the table.
    """
    paced_table, pace = paced(table, changeset_id)
    yield Pool(before=pace.wait) if pace else Pool(), paced_table


def _has_written(work: WorkFile) -> bool:
    """Return whether an import has created or changed any item so far."""
    return any(counts.get(name) for counts in work.outcomes().values() for name in (CREATED, CHANGED))


def _warn(work: WorkFile) -> None:
    """Print a warning if the work file has discarded the progress of an interrupted import, so that the import starts
    over."""
    if work.restart_reason:
        print(
            f"{work.restart_reason}, so the import starts over; existing items count as unchanged.",
            file=sys.stderr,
        )


def _name_absent_types(counts: Mapping[str, int], file: str, types: frozenset[str]) -> None:
    """Print a warning with the requested types that no title of a file has. Prints nothing if all types occur.

    `counts` are the numbers of the file's rows by outcome.
    """
    present = {name.removeprefix(OF_TYPE) for name in counts if name.startswith(OF_TYPE)}
    if absent := sorted(types - present):
        there = ", ".join(sorted(present)[:MAX_TYPES]) or "none"
        print(f"No title in {file} has the type {' or '.join(absent)}. The types are: {there}.", file=sys.stderr)


def _conclude(work: WorkFile, file: str) -> int:
    """Return the exit status: 1 if no row of the file named `file` was accepted, otherwise 0. If the import changed
    nothing, also print why."""
    outcomes = work.outcomes()
    counts = outcomes.get(file, {})
    if any(counts.get(name) for name in ACCEPTED):
        if not _has_written(work):
            print("Nothing was changed: the table already has everything that could be imported.")
        return 0
    not_selected = counts.get(NOT_SELECTED, 0)
    refused = sum(count for name, _, count in work.refused_by_reason() if name == file)
    if not_selected:
        rest = f", and {refused} more were refused" if refused else ""
        print(f"Nothing was imported: none of the {not_selected} titles in {file} was selected{rest}.", file=sys.stderr)
        return 1
    empty = "has only a header" if file == BASICS.file else "is empty"
    why = f"every line of {file} was refused" if refused else f"{file} {empty}"
    print(f"Nothing was imported: {why}.", file=sys.stderr)
    return 1


def _summarise(work: WorkFile, rejects: Path, unselected: str) -> None:
    """Print the numbers of rows by file and outcome, and of refused rows by reason."""
    console = Console(highlight=False, soft_wrap=True)
    grid = Grid("file", *ACCEPTED)
    outcomes = work.outcomes()
    shown = {file: counts for file, counts in outcomes.items() if any(counts.get(name) for name in ACCEPTED)}
    for file, counts in shown.items():
        grid.add_row(escape(file), *(str(counts.get(name, 0)) for name in ACCEPTED))
    if shown:
        console.print(grid)
    left_out = sum(counts.get(WITHOUT_TITLE, 0) for counts in outcomes.values())
    if left_out:
        console.print(f"Rows of titles that are {unselected}: {left_out}")
    refused = work.refused_by_reason()
    if refused:
        reasons = Grid("file", "not imported because", "rows")
        for file, reason, count in refused:
            reasons.add_row(escape(file), reason, str(count))
        console.print(reasons)
        console.print(f"{rejects} lists these rows.", markup=False)


def _export(options: argparse.Namespace) -> int:
    table = open_table(options.table)
    counts = Export(table, options.file, raw=options.dynamodb_json, bars=Bars()).run()
    if not counts:
        print(f"{options.file}: the table is empty.")
        return 0
    by_kind = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    print(f"{options.file}: {sum(counts.values()):,} items: {by_kind}.")
    return 0


def _restore(options: argparse.Namespace) -> int:
    if options.until is not None and options.since is None:
        raise ToolError("--until requires --since.")
    if options.since is not None and options.until is not None and options.since >= options.until:
        raise ToolError("--since must be before --until.")
    table = open_table(options.table)
    file = _copy(options.source, table)
    plan = RestorePlan(options.since, options.until, options.force, options.videos)
    target = Rehearsal(table) if options.dry_run else table
    settings = {"table": table.name, "file": file.name, "plan": plan.settings()}
    with TemporaryDirectory() as temporary:
        # A dry run has no progress to keep, because it writes nothing.
        state = Path(temporary) / "state" if options.dry_run else file.with_name(f"{file.name}.restore")
        with work_file(state, settings, None if options.dry_run else table) as work:
            _warn(work)
            LineRestore(
                file,
                target,
                work,
                plan=plan,
                print_line=print,
                rate=RateLimiter(options.rate),
                pool=Pool(),
                bars=Bars(),
            ).run()
            counts = Counter[str]()
            for outcomes in work.outcomes().values():
                counts.update(outcomes)
            refused = sum(1 for _ in work.refused())
            work.remove()
    would = "would be " if options.dry_run else ""
    print(
        f"{counts[CREATED]} {would}restored, {counts[CHANGED]} {would}repaired, {counts[UNCHANGED]} unchanged, "
        f"{refused} skipped."
    )
    if counts[CREATED] or counts[CHANGED]:
        print(f"The stream updates the totals. Check them a minute later: {_command('reconcile', of=options)}")
    return 0


def _copy(source: str, table: Table) -> Path:
    """Return the path of the export to restore from. If `source` is the name of a table, export that table first.

    An export that an earlier run has completed is used again.
    """
    file = Path(source)
    if not file.is_file():
        if source == table.name:
            raise ToolError(f"{source} is the table to restore. Name a copy of it with --from.")
        try:
            origin = open_table(source)
        except ToolError as error:
            raise ToolError(f"{source} is not a file. {error}") from error
        # Another table may have had this name before, or may have it later. Each table needs a separate copy.
        file = Path(f"{source}.{_made_at(origin)}.jsonl.gz")
        if not file.exists():
            Export(origin, file, bars=Bars()).run()
    age = max(0, int(time.time() - file.stat().st_mtime)) // 60
    print(f"Restoring from {file}, which was written {age // 60} h {age % 60} min ago.")
    return file


def _made_at(table: Table) -> str:
    """Return the creation time of a table, such as `20260131T120000Z`. If a table is deleted and created again with the
    same name, the time differs."""
    try:
        # The service's client does not convert times: this one is in epoch seconds.
        created: Any = table.client.describe_table(TableName=table.name)["Table"]["CreationDateTime"]
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"The table {table.name} cannot be described: {error}") from error
    return f"{datetime.fromtimestamp(created, UTC):%Y%m%dT%H%M%SZ}"


def _reconcile(options: argparse.Namespace) -> int:
    return prove(open_table(options.table), repair=options.repair, bars=Bars())


def _history(options: argparse.Namespace) -> int:
    table = open_table(options.table)
    histories = Histories(table, open_trail(table))
    if options.version:
        return show_version(histories, options.video, options.version)
    if options.diff:
        return show_difference(histories, options.video, *options.diff, as_json=options.json)
    return show_trail(histories, options.video, limit=options.limit, as_json=options.json)


def _undo(options: argparse.Namespace) -> int:
    table = open_table(options.table)
    trail = open_trail(table)
    total = entries_of(ChangeSets(trail.table), options.changeset, int(time.time()))
    kept = options.state or UNDOS / f"{re.sub(r'[^A-Za-z0-9.-]', '_', options.changeset)}.state"
    settings = {"table": table.name, "changeset": options.changeset, "force": sorted(options.force)}
    with TemporaryDirectory() as temporary:
        # A dry run has no progress to keep, because it writes nothing.
        saved = SavedRevert(Path(temporary) / "state" if options.dry_run else kept, settings)
        request = RevertRequest(UNDOER.acting_for(saved.id()), tuple(options.force), options.dry_run, attended=True)
        # Quotas apply to owners. The operator's writes are counted, but never refused.
        paced_table, pace = paced(table, request.own)
        quota = QuotaStore(table, sys.maxsize)
        reverts = ChangeSetReverts(paced_table, trail, quota, threads=THREADS, pages=PAGES)
        wait = pace.wait if pace else lambda: None
        report = UndoCommand(RunStore(table), reverts, options.changeset, request, bars=Bars(), wait=wait).run(total)
        saved.forget()  # before printing, which fails if the reader closes the pipe
    return show(report, lambda changeset: _command("undo", changeset, of=options))


def _listen(options: argparse.Namespace) -> int:
    if options.url and not options.port:
        raise ToolError("--url requires --port, the local port of the tunnel.")
    if options.api and not options.url and urlsplit(options.api).hostname not in LOOPBACK_NAMES:
        raise ToolError("--api requires --url, because a deployed service cannot call this machine.")
    # Imported here because the HTTP packages account for a quarter of the load time.
    from tools.listening import Listener, ListenOptions, deployed_service, local_service

    service = deployed_service(options.api) if options.api else local_service()
    listening = ListenOptions(tuple(sorted(options.types)), options.user_id, options.url, options.port)
    # Closing the terminal ends the command as Ctrl-C does.
    with _ending_like_an_interrupt(signal.SIGHUP), closing(service):
        Listener(service, listening, Console(highlight=False, soft_wrap=True)).run()
    return 0


def _index(options: argparse.Namespace) -> int:
    # Imported here because the search engine is slow to load.
    from tools.index import bucket_of, rebuild, request_rebuild, require_bucket, status

    table = open_table(options.table)
    s3 = make_s3_client()
    feed, objects = Feed(open_trail(table).table), Objects(s3)
    bucket = options.bucket or bucket_of(table.name, session().client("cloudformation"))
    require_bucket(bucket, s3)
    if options.what == "status":
        print("\n".join(status(table, feed)))
        return 0
    if request_rebuild(table):
        print(
            "The index is in OpenSearch. The function `indexer` rebuilds it within minutes; `status` shows the progress."
        )
        return 0
    with TemporaryDirectory() as folder:
        films = rebuild(table, feed, objects, bucket, Path(folder), bars=Bars())
    print(f"The search index has {films:,} videos.")
    return 0


def _query(options: argparse.Namespace) -> int:
    if options.sql and (options.start or options.end):
        raise ToolError(
            "--from and --to require --saved. Write the days in the condition of the SQL, as day >= date '2026-06-01'."
        )
    sql = options.sql or saved(options.saved, options.start, options.end, time.time())
    table = open_table(options.table)
    result = run_query(session().client("athena"), table.name, sql)
    show_result(result, options.format, sys.stdout)
    print_cost(result)
    return 0


def _archive(options: argparse.Namespace) -> int:
    # Imported here because DuckDB is slow to load.
    from shared.archive.compactor import Compactor
    from tools.erasing import REPLACEMENT, Eraser
    from tools.index import bucket_of
    from tools.snapshotting import snapshot

    if (options.what == "erase") != bool(options.id):
        raise ToolError("`erase` requires --id, and other actions do not allow it.")
    if options.replacement and not REPLACEMENT.fullmatch(options.replacement):
        raise ToolError("--replacement must be the text that an earlier run printed, such as erased-0123456789abcdef.")
    table, objects = open_table(options.table), Objects(make_s3_client())
    cloudformation = session().client("cloudformation")
    archive, analytics = (bucket_of(table.name, cloudformation, f"{name}Bucket") for name in ("Archive", "Analytics"))
    compactor = Compactor(objects, archive, analytics, time.time)
    if options.what == "compact":
        run = compactor.run(days=compactor.days())
        print(f"{run.entries:,} entries of {run.sources:,} objects were merged.")
        return 0
    if options.what == "snapshot":
        written = snapshot(table, objects, analytics, bars=Bars()).snapshots
        have = "have a new snapshot" if written else "already have a newer snapshot. The command changed nothing"
        print(f"The tables `videos` and `views` {have}.")
        return 0
    eraser = Eraser(objects, archive, analytics, compactor, options.id, options.replacement)
    if not options.dry_run:
        print(f"To repeat an interrupted run, add --replacement {eraser.replacement}", file=sys.stderr, flush=True)
    receipt = eraser.run(dry_run=options.dry_run)
    print(json.dumps(receipt._asdict() | {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}, indent=2))
    return 0 if receipt.is_complete or options.dry_run else 1


def _redrive(options: argparse.Namespace) -> int:
    if options.local:
        use_local_service(os.environ)
    try:
        aws = session()
        pair = find_pair(aws.client("cloudformation"), options.env, options.queue)
        return redrive(pair, aws.client("sqs"), show_only=options.show, asking=not options.yes, limit=options.limit)
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"AWS returned an error: {error}. Run the same command again to continue.") from error


if __name__ == "__main__":
    sys.exit(main())
