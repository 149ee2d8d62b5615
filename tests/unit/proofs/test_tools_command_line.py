"""`python -m tools`: output on the terminal, and exit status."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from local import ROOT
from local.aws import Aws
from local.testbed.harness import NOW, Api
from shared.aws.dynamodb import Table
from shared.core.errors import InternalError, Unavailable
from shared.schema import VIDEO
from tests.integration.contents import items_of
from tests.polling import LIMIT
from tools import target
from tools.__main__ import main
from tools.imdb import BASICS, video_id
from tools.preflight import NO_REGION
from tools.rate_limit import Pool
from tools.work_file import WorkFile

FILES = (
    "title.basics",
    "title.episode",
    "title.principals",
    "title.crew",
    "title.akas",
    "title.ratings",
    "name.basics",
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one thread, because moto copies all its tables for each transaction.

    It restores the copy if the transaction fails, which would revert writes of other threads.
    """
    initialise = Pool.__init__
    monkeypatch.setattr(Pool, "__init__", lambda pool, threads=1, **options: initialise(pool, 1, **options))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three generated titles."""
    assert main(["generate", str(tmp_path / "imdb"), "--titles", "3", "--people", "3"]) == 0
    return tmp_path / "imdb"


def test_catalogue_is_generated_imported_exported_and_reconciled(
    table: Table, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {path.name for path in folder.iterdir()} == {f"{name}.tsv.gz" for name in FILES}
    arguments = ["import-imdb", str(folder), "--table", table.name]
    assert main(arguments) == 0
    assert "created" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "Nothing was changed" in capsys.readouterr().out
    file = folder / "all.jsonl.gz"
    assert main(["export", str(file), "--table", table.name]) == 0
    lines = len(gzip.decompress(file.read_bytes()).splitlines())
    assert re.fullmatch(rf"{re.escape(str(file))}: {lines} items: 3 Video, .*\.\n", capsys.readouterr().out)
    assert main(["import", str(file), "--table", table.name]) == 0
    assert "Nothing was changed" in capsys.readouterr().out
    raw = folder / "raw.json"
    assert main(["export", str(raw), "--table", table.name, "--dynamodb-json"]) == 0
    assert "Item" in json.loads(raw.read_text(encoding="utf-8").splitlines()[0])


@pytest.mark.parametrize("command", ["import-imdb", "import"])
def test_import_prints_its_undo_command_also_after_a_resume(
    table: Table, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    source = folder
    if command == "import":
        assert main(["import-imdb", str(folder), "--table", table.name]) == 0
        source = folder / "all.jsonl"
        assert main(["export", str(source), "--table", table.name]) == 0
        for item in items_of(table):
            table.delete({"pk": item["pk"], "sk": item["sk"]})
    capsys.readouterr()
    arguments = [command, str(source), "--table", table.name]
    with monkeypatch.context() as patched:
        # after the first writes, before the import has recorded them
        patched.setattr(WorkFile, "wrote", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert main(arguments) == 1
    begun = capsys.readouterr().out
    assert main(arguments) == 0
    ended = capsys.readouterr().out
    (id_,) = set(re.findall(r"import-[0-9a-f-]{36}", begun + ended))
    undo = f"python -m tools undo {id_} --table {table.name}"
    assert f"This import is one change set. To revert it: {undo}\n" in begun
    assert ended.count(undo) == 1 + ("To revert what was written" in ended)
    for item in items_of(table):
        if item["sk"] == VIDEO.sk or item["sk"].startswith(("CREDIT#", "RELEASE#")):
            assert item["updatedFor"] == id_
    assert main(arguments) == 0
    assert f"undo {id_}" not in capsys.readouterr().out


def test_refused_lines_are_counted_and_written_to_the_report(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("{}\n[]\n{}\n", encoding="utf-8")
    report = tmp_path / "report.jsonl"
    assert main(["import", str(file), "--table", table.name, "--rejects", str(report)]) == 1
    captured = capsys.readouterr()
    assert "unknown entity" in captured.out
    assert captured.err == "Nothing was imported: every line of all.jsonl was refused.\n"
    entries = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    assert [(entry["file"], entry["line"]) for entry in entries] == [("all.jsonl", n) for n in (1, 2, 3)]


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_import_of_an_empty_file_is_an_error(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    assert main(["import", str(tmp_path / name), "--table", table.name]) == 1
    assert capsys.readouterr().err == f"Nothing was imported: {name} is empty.\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_import_names_the_files_that_it_omits(table: Table, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "title.crew.tsv.gz").unlink()
    assert main(["import-imdb", str(folder), "--table", table.name]) == 0
    assert capsys.readouterr().err == f"title.crew.tsv.gz is not in {folder}: importing without crew.\n"


def write_titles(folder: Path, *rows: str) -> list[str]:
    """Write only title.basics, and return the command that imports it."""
    folder.mkdir()
    lines = ["\t".join(BASICS.columns), *(row.replace(" ", "\t") for row in rows)]
    (folder / "title.basics.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [
        "import-imdb",
        str(folder),
        "--table",
        "VideoMetadata",
        "--without",
        "credits,crew,episodes,releases,ratings",
    ]


MOVIE = r"tt1 movie T T 0 1999 \N \N \N"


def test_titles_without_any_row_are_an_error(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write_titles(tmp_path / "imdb")) == 1
    assert "title.basics.tsv.gz has only a header" in capsys.readouterr().err


def test_import_that_refused_every_title_is_an_error(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(write_titles(tmp_path / "imdb", MOVIE.replace("1999", "x"))) == 1
    assert "every line of title.basics.tsv.gz was refused" in capsys.readouterr().err


def test_import_that_selected_no_title_is_an_error(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*write_titles(tmp_path / "imdb", MOVIE), "--from-year", "2000"]) == 1
    assert (
        capsys.readouterr().err == "Nothing was imported: none of the 1 titles in title.basics.tsv.gz was selected.\n"
    )


@pytest.mark.parametrize(("types", "status"), [("Movie,film", 1), ("movie,film", 0)])
def test_types_without_titles_are_named(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], types: str, status: int
) -> None:
    assert main([*write_titles(tmp_path / "imdb", MOVIE), "--types", types]) == status
    absent = "Movie or film" if status else "film"
    output = capsys.readouterr().err.splitlines()[0]
    assert output == f"No title in title.basics.tsv.gz has the type {absent}. The types are: movie."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "Rows of titles that are missing: 1\n"),
        (["--from-year", "1990"], "Rows of titles that are not selected or missing: 1\n"),
    ],
)
def test_rows_of_other_titles_are_counted_in_the_summary(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    arguments = write_titles(tmp_path / "imdb", MOVIE)[:-1]
    rows = "tconst\taverageRating\tnumVotes\ntt1\t5.0\t5\ntt2\t5.0\t5\n"
    (tmp_path / "imdb/title.ratings.tsv").write_text(rows, encoding="utf-8")
    assert main([*arguments, "credits,crew,episodes,releases", *options]) == 0
    assert sentence in capsys.readouterr().out


def test_import_that_did_not_start_leaves_no_state_file(table: Table, folder: Path) -> None:
    (folder / "title.akas.tsv.gz").unlink()
    assert main(["import-imdb", str(folder), "--table", table.name]) == 1
    assert [path.name for path in folder.parent.rglob("*.state")] == []


@pytest.mark.parametrize("command", ["import-imdb", "import"])
def test_import_that_starts_over_prints_the_reason(
    table: Table, folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    source, damaged = folder, folder / "title.ratings.tsv.gz"
    if command == "import":
        assert main(["import-imdb", str(folder), "--table", table.name]) == 0
        source = damaged = folder / "all.jsonl.gz"
        assert main(["export", str(source), "--table", table.name]) == 0
    original = damaged.read_bytes()
    damaged.write_bytes(original[:-12])
    assert main([command, str(source), "--table", table.name]) == 1
    damaged.write_bytes(original)
    for item in items_of(table):
        if not item["pk"].startswith("IMPORT#"):
            table.delete({"pk": item["pk"], "sk": item["sk"]})
    capsys.readouterr()
    assert main([command, str(source), "--table", table.name]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        f"The table {table.name} has lost items of the interrupted import, so the import starts over; "
        "existing items count as unchanged.\n"
    )
    assert sum(item["sk"] == VIDEO.sk for item in items_of(table)) == 3


def test_sigterm_ends_an_import_like_an_interrupt(
    table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["import-imdb", str(folder), "--table", table.name]
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        patched.setattr(Table, "transact", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
        patched.setattr(Pool, "map", lambda _, action, tasks, advance: [action(task) for task in tasks])
        assert main(arguments) == 1
    assert capsys.readouterr().err == "Stopped; run the same command again to continue.\n"
    assert signal.getsignal(signal.SIGTERM) == before
    assert main(arguments) == 0


def test_damaged_file_is_an_error_and_the_import_resumes_with_the_complete_file(
    table: Table, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratings = folder / "title.ratings.tsv.gz"
    original = ratings.read_bytes()
    ratings.write_bytes(original[:-9])
    arguments = ["import-imdb", str(folder), "--table", table.name]
    assert main(arguments) == 1
    assert "is truncated" in capsys.readouterr().err
    ratings.write_bytes(original)
    assert main(arguments) == 0
    assert table.get(VIDEO.key(videoId=video_id("tt0000001")))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["import-imdb", "nowhere", "--table", "VideoMetadata"], "nowhere is not a folder."),
        (["import", "nowhere", "--table", "VideoMetadata"], "The file nowhere does not exist."),
        (
            ["import-imdb", ".", "--table", "Other"],
            "The table Other does not exist. Check its name, the credentials and the region.",
        ),
        (["export", "all.jsonl", "--table", "my table"], "'my table' is not a table name."),
        (
            ["restore", "--from", "missing.jsonl", "--table", "VideoMetadata"],
            "missing.jsonl is not a file. The table missing.jsonl does not exist. Check its name, the credentials and the region.",
        ),
        (
            ["restore", "--from", "/nowhere/missing.jsonl", "--table", "VideoMetadata"],
            "/nowhere/missing.jsonl is not a file. '/nowhere/missing.jsonl' is not a table name.",
        ),
        (["import-imdb", ".", "--table", "VideoMetadata", "--from-year", "2000", "--to-year", "1999"], "is after"),
        (["export", "/nowhere/all.jsonl", "--table", "VideoMetadata"], "No such file or directory."),
        (["export", ".", "--table", "VideoMetadata"], ". is a folder. Name a file in it, such as all.jsonl.gz."),
        (["export", "/", "--table", "VideoMetadata"], "/ is a folder. Name a file in it, such as /all.jsonl.gz."),
        (["export", "..", "--table", "VideoMetadata"], ".. is a folder. Name a file in it, such as ../all.jsonl.gz."),
    ],
)
def test_error_is_printed_on_one_line(
    table: Table, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line


def test_python_without_the_packages_prints_the_correct_command() -> None:
    # `-S` excludes site-packages, which has all installed packages.
    bare = [sys.executable, "-S", "-m", "tools", "--help"]
    done = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert ".venv/bin/python -m tools" in line


def test_tools_without_a_command_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    output = capsys.readouterr().err
    for command in ("generate", "import-imdb", "import", "export", "restore", "reconcile", "history", "undo", "index"):
        assert re.search(rf"^    {command}\s+[A-Z]", output, re.MULTILINE), command


def test_import_without_its_files_prints_no_change_set(
    table: Table, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for absent in ("title.akas", "title.crew"):  # title.akas is required, title.crew is optional
        (folder / f"{absent}.tsv.gz").unlink()
    capsys.readouterr()
    assert main(["import-imdb", str(folder), "--table", table.name]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"The file {folder / 'title.akas.tsv.gz'} does not exist.\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_closed_output_ends_a_command_without_a_message(table: Table, options: list[str]) -> None:
    """With --json, commands print with `print`, otherwise with rich."""
    program = (
        "import sys; from unittest import mock; from tools import __main__ as tools; tools.open_table = tools.open_trail = mock.Mock();"
        "tools.Histories = lambda *_: mock.Mock(newest=lambda *_: ([ENTRY] * 5000, False)); sys.exit(tools.main())"
    )
    entry = {
        "entity": "video",
        "videoId": "v",
        "sequence": 1,
        "action": "changed",
        "at": 0,
        "by": {"kind": "person", "id": "alice"},
        "changes": [{"field": "/title", "from": "x" * 90, "to": "y"}],
    }
    command = [sys.executable, "-c", program.replace("ENTRY", repr(entry)), "history", "v", "--local", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(LIMIT) == 1


def test_missing_region_is_an_error_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    assert main(["reconcile", "--table", "VideoMetadata"]) == 1
    assert capsys.readouterr().err == f"{NO_REGION}\n"


def test_region_of_the_variable_aws_region_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    connect = mock.Mock(side_effect=lambda: os.environ["AWS_DEFAULT_REGION"])
    monkeypatch.setattr(target, "make_client", connect)
    monkeypatch.setattr(target, "_readable", lambda table: table)
    assert target.open_table("VideoMetadata").client == "eu-west-3"


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "folder", "--titles", "0"],
        ["import", "file"],
        ["import", "file", "--table", "T", "--local"],
        ["import", "file", "--table", "T", "--rate", "fast"],
        ["import-imdb", "folder", "--table", "T", "--without", "titles"],
        ["import-imdb", "folder", "--table", "T", "--from-year", "12345"],
        ["import-imdb", "folder", "--table", "T", "--owner", ""],
        *(["import-imdb", "folder", "--table", "T", "--owner", f"me{control}you"] for control in "\n\x7f"),
        *(
            ["import-imdb", "folder", "--table", "T", "--owner", owner]
            for owner in ("x" * 256, "\N{CLAPPER BOARD}" * 251)
        ),
        ["import-imdb", "folder", "--table", "T", "--owner", ".."],
        ["history", "--table", "T"],
        ["history", "video", "--table", "T", "--limit", "0"],
        ["history", "video", "--table", "T", "--version", "1", "--diff", "1", "2"],
        ["history", "video", "--table", "T", "--diff", "1"],
        ["undo", "--table", "T"],
        ["undo", "set"],
        ["undo", "set", "--table", "T", "--force"],
    ],
)
def test_wrong_arguments_are_reported(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: python -m tools" in capsys.readouterr().err


def test_permanently_throttled_table_ends_the_import_which_can_be_resumed(
    table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise Unavailable

    arguments = ["import-imdb", str(folder), "--table", table.name]
    with monkeypatch.context() as patched:
        patched.setattr(Table, "transact", busy)
        assert main(arguments) == 1
    assert capsys.readouterr().err == (
        "AWS returned an error: The database is busy. Retry the request. Run the same command again to continue.\n"
    )
    assert main(arguments) == 0


def test_permanent_error_does_not_suggest_a_retry(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = mock.Mock(side_effect=InternalError("S3 refused a request with NoSuchBucket"))
    monkeypatch.setattr("tools.__main__.prove", refused)
    assert main(["reconcile", "--table", table.name]) == 1
    assert capsys.readouterr().err == "AWS returned an error: S3 refused a request with NoSuchBucket.\n"


def test_reconcile_reports_a_table_without_discrepancies(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reconcile", "--table", api.table.name]
    assert main(arguments) == 0
    assert "There are no discrepancies." in capsys.readouterr().out


def test_reconcile_reports_recent_findings_separately(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shared.background.reconcile.SECONDS_FOR_STREAM", 0)
    monkeypatch.setattr("shared.background.reconcile.RECENTLY", 10**6)
    api.clock.advance(time.time() - NOW)
    api.publish()
    assert main(["reconcile", "--table", api.table.name]) == 1
    printed = capsys.readouterr().out
    assert "Discrepancies: 1 found." in printed
    assert "Of these, 1 concern videos that were changed less than a minute ago, and may be transient." in printed


def test_local_option_uses_the_local_service_and_no_other_account(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = Aws("http://127.0.0.1:4566", "http://127.0.0.1:4568", "a secret")
    monkeypatch.setattr(target, "running_service", aws.described)
    environment = {"AWS_PROFILE": "mine", "HOME": "/home/me"}
    target.use_local_service(environment)
    assert aws.environment().items() <= environment.items()
    assert "AWS_PROFILE" not in environment
