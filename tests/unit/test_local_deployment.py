"""Tests of the local deployment: when the service is deployed again, and which AWS account a deployment can reach."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from local import ROOT, LocalError, deployment
from local.aws import Aws
from local.deployment import Deployment, _output, _reason, environment, fingerprint

ENDPOINT, ISSUER = "http://127.0.0.1:4566", "http://127.0.0.1:4567"
AWS = Aws(ENDPOINT, "http://127.0.0.1:4568", "a secret")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a small checkout of the project."""
    for name in ("functions/videos", "shared", "infra/__pycache__", "tests"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("app.py", "requirements.txt", "functions/videos/handler.py", "shared/schema.py"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_same_sources_have_the_same_fingerprint(sources: Path) -> None:
    assert fingerprint(ENDPOINT, ISSUER, root=sources) == fingerprint(ENDPOINT, ISSUER, root=sources)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "functions/videos/handler.py").write_text("new"), id="changed file"),
        pytest.param(lambda root: (root / "functions/videos/extra.bin").write_bytes(b""), id="new file"),
        pytest.param(lambda root: (root / "shared/schema.py").unlink(), id="deleted file"),
        pytest.param(lambda root: (root / "shared/schema.py").rename(root / "shared/keys.py"), id="renamed file"),
        pytest.param(lambda root: (root / "requirements.txt").write_text("a==2"), id="changed requirement"),
        pytest.param(lambda root: (root / "cdk.json").write_text("{}"), id="changed settings of the CDK"),
    ],
)
def test_relevant_change_changes_the_fingerprint(sources: Path, change: Callable[[Path], object]) -> None:
    before = fingerprint(ENDPOINT, ISSUER, root=sources)
    change(sources)
    assert fingerprint(ENDPOINT, ISSUER, root=sources) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "infra/__pycache__/stack.pyc").write_bytes(b"1"), id="bytecode"),
        pytest.param(lambda root: (root / "tests/test_a.py").write_text("1"), id="test"),
        pytest.param(lambda root: (root / "README.md").write_text("1"), id="README"),
        pytest.param(lambda root: os.utime(root / "app.py", (1, 1)), id="modification time"),
    ],
)
def test_irrelevant_change_keeps_the_fingerprint(sources: Path, change: Callable[[Path], object]) -> None:
    before = fingerprint(ENDPOINT, ISSUER, root=sources)
    change(sources)
    assert fingerprint(ENDPOINT, ISSUER, root=sources) == before


def test_different_ports_have_different_fingerprints(sources: Path) -> None:
    settings = [
        (ENDPOINT, ISSUER),
        ("http://127.0.0.1:1", ISSUER),
        (ENDPOINT, "http://127.0.0.1:1"),
        (ISSUER, ENDPOINT),
    ]
    assert len({fingerprint(*setting, root=sources) for setting in settings}) == len(settings)


def test_deployment_cannot_reach_the_developers_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_S3", "CDK_DEFAULT_ACCOUNT"):
        monkeypatch.setenv(name, "real")
    env = environment(AWS, tmp_path)
    assert "real" not in env.values()
    assert AWS.environment().items() <= env.items()
    assert env["AWS_CONFIG_FILE"] == env["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull


def test_deployment_compresses_packages_at_the_fastest_level(tmp_path: Path) -> None:
    program = """
const zlib = require("node:zlib"), data = require("node:fs").readFileSync(process.argv[1]);
zlib.deflateRaw(data, { level: 9 }, (_, compressed) => console.log(compressed.equals(zlib.deflateRawSync(data, { level: 1 }))));
"""
    done = subprocess.run(
        ["node", "--eval", program, str(ROOT / "README.md")],
        env=environment(AWS, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "true\n"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fingerprint": "f"}', '{"unknown": 1}'])
def test_damaged_deployment_file_is_ignored(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deployment.json"
    assert Deployment.load(file) is None
    file.write_text(text)
    assert Deployment.load(file) is None


def test_deployment_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "deployment.json"
    deployment = Deployment("f", ISSUER, "abc", "bucket", "http://localhost:4566/000000000000/queue")
    file.write_text(json.dumps(asdict(deployment)))
    assert Deployment.load(file) == deployment


def test_deployment_file_of_an_earlier_release_is_ignored(tmp_path: Path) -> None:
    """Test a file without values that are needed now. The service is then deployed again."""
    file = tmp_path / "deployment.json"
    file.write_text(json.dumps({"fingerprint": "f", "issuer": ISSUER, "api_id": "abc"}))
    assert Deployment.load(file) is None


def test_deployment_reports_each_package_and_stack_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "Bundling asset VideoMetadata-dev-Jobs/Router/Function/Code/Stage...",
        "VideoMetadata-dev-Jobs: success: Built Router/Function/Code",
        "VideoMetadata-dev-Data: deploying... [1/4]",
    ]
    program, reported = tmp_path / "cdk", list[str]()
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    program.chmod(0o700)
    monkeypatch.setattr(deployment, "CDK", program)
    deployment.cdk(["deploy"], dict(os.environ), tmp_path / "deploy.log", reported.append)
    assert reported == [lines[0], lines[2]]
    assert (tmp_path / "deploy.log").read_text().splitlines() == lines


def test_output_is_found_by_stack_and_name(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs.json"
    outputs.write_text(json.dumps({"A-Jobs": {"TranscodeQueueUrl": "http://queue"}}))
    assert _output(outputs, "A-Jobs", "TranscodeQueueUrl", tmp_path / "log") == "http://queue"


@pytest.mark.parametrize("text", [None, "{", "{}", '{"A-Jobs": {}}'])
def test_missing_output_is_named(tmp_path: Path, text: str | None) -> None:
    outputs = tmp_path / "outputs.json"
    if text is not None:
        outputs.write_text(text)
    with pytest.raises(LocalError, match="The stack A-Jobs has no output TranscodeQueueUrl"):
        _output(outputs, "A-Jobs", "TranscodeQueueUrl", tmp_path / "log")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["ValueError: no such target", "python3 app.py: Subprocess exited with error 1"],
            "ValueError: no such target",
        ),
        (["Stack | CREATE_FAILED | x", "a hint about an error"], "Stack | CREATE_FAILED | x"),
        (["something", "else"], "else"),
        ([], "it printed nothing"),
    ],
)
def test_failed_deployment_names_its_cause(lines: list[str], expected: str) -> None:
    assert _reason(lines) == expected
