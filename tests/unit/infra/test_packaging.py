"""What is deployed holds what the functions need for the right machine, and not much else.

These run uv and the compiler for real; uv from its cache when the wheels are there.
"""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra import packaging
from infra.packaging import bundle
from infra.settings import Misconfigured, Settings, Target
from tests.unit.infra.templates import LOCAL

AARCH64, X86_64 = 183, 62
"""How an ELF file names its machine."""

PYTHON_313 = b"\xf3\r\r\n"
"""The first bytes of bytecode that Python 3.13 accepts."""
UNCHECKED = b"\x01\0\0\0"
"""The bytes that follow when Python does not check the source."""


@pytest.fixture(scope="module", autouse=True)
def private_by_default() -> Iterator[None]:
    """Packages are made on a machine where new files are their owner's alone."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def for_aws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("aws")
    bundle(output, target="aws", films=False)
    return output


@pytest.fixture(scope="module")
def films_for_aws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("films-aws")
    bundle(output, target="aws", films=True)
    return output


@pytest.fixture(scope="module")
def films_for_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("films-local")
    bundle(output, target="local", films=True)
    return output


@pytest.fixture(scope="module")
def for_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("local")
    bundle(output, target="local", films=False)
    return output


def test_compiled_modules_are_for_python_313_on_arm(for_aws: Path, films_for_aws: Path) -> None:
    for package in (for_aws, films_for_aws):
        compiled = list(package.rglob("*.so*"))
        assert compiled
        assert {_machine(module) for module in compiled} == {AARCH64}
        assert not [module for module in compiled if "cpython-" in module.name and "cpython-313" not in module.name]


def test_the_other_architecture_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "compile_modules", lambda *_: None)  # it is the same for both, and takes long
    bundle(tmp_path, target="aws", films=False, architecture="x86_64")
    assert {_machine(module) for module in tmp_path.rglob("*.so*")} == {X86_64}


def test_fits_lambda_with_room_to_spare(for_aws: Path, films_for_aws: Path) -> None:
    """Lambda takes 250 MB; a jump means that something came in by mistake."""
    assert _size(for_aws) < 60_000_000
    assert 100_000_000 < _size(films_for_aws) < 200_000_000


def test_only_what_reads_films_carries_what_it_takes(for_aws: Path, films_for_aws: Path) -> None:
    for name in ("av", "av.libs", "PIL"):
        assert not (for_aws / name).exists()
        assert (films_for_aws / name).is_dir()
    missing = {entry.name for entry in for_aws.iterdir()} - {entry.name for entry in films_for_aws.iterdir()}
    assert not missing


@pytest.mark.parametrize("folder", ["functions/videos", "functions/views", "functions/public", "shared"])
def test_the_sources_are_where_handlers_import_them_from(for_aws: Path, folder: str) -> None:
    assert (for_aws / folder / "__init__.py").is_file()


@pytest.mark.parametrize(
    "pattern",
    [
        "bin",
        ".lock",
        "*/RECORD",
        "functions/**/requirements.txt",
        "functions/**/tests",
        "infra",
        "**/*.pyi",
        "**/*.pxd",
    ],
)
def test_nothing_is_left_from_building(for_aws: Path, films_for_aws: Path, pattern: str) -> None:
    assert not [*for_aws.glob(pattern), *films_for_aws.glob(pattern)]


def test_lambda_can_read_all_of_it_whatever_the_umask_of_the_machine(
    for_aws: Path, films_for_aws: Path, for_this_machine: Path
) -> None:
    for package in (for_aws, films_for_aws, for_this_machine):
        entries = [package, *package.rglob("*")]
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in entries if entry.is_dir()} == {0o755}
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in entries if entry.is_file()} == {0o644}


def test_every_module_comes_with_bytecode_that_lambdas_python_takes_unseen(for_aws: Path, films_for_aws: Path) -> None:
    for package in (for_aws, films_for_aws):
        modules = _modules(package)
        assert "functions/videos/handler.py" in modules
        assert sorted(modules) == sorted(_source(file, package) for file in package.rglob("*.pyc"))
        assert {file.read_bytes()[:8] for file in package.rglob("*.pyc")} == {PYTHON_313 + UNCHECKED}


def test_the_same_sources_give_the_same_bytes_at_another_time_and_place(for_aws: Path, tmp_path: Path) -> None:
    """CDK takes a package for a new one when a byte of it is different."""
    again = tmp_path / "again"
    shutil.copytree(for_aws, again, ignore=shutil.ignore_patterns("__pycache__"))
    for file in again.rglob("*.py"):
        os.utime(file, (0, 0))
    packaging.compile_modules(again, "aws")
    files = [file.relative_to(for_aws) for file in sorted(for_aws.rglob("*.pyc"))]
    assert files
    assert not [file for file in files if (again / file).read_bytes() != (for_aws / file).read_bytes()]


def test_tracebacks_name_a_file_as_it_is_called_in_lambda(for_aws: Path) -> None:
    (bytecode,) = (for_aws / "functions/videos/__pycache__").glob("handler.*.pyc")
    assert b"/var/task/functions/videos/handler.py" in bytecode.read_bytes()
    assert str(for_aws).encode() not in bytecode.read_bytes()


@pytest.mark.parametrize("target", ["aws", "local"])
def test_a_module_that_cannot_be_compiled_stops_the_packaging(tmp_path: Path, target: Target) -> None:
    (tmp_path / "good.py").write_text("x = 1")
    (tmp_path / "bad.py").write_text("def (")
    with pytest.raises(RuntimeError, match=r"(?s)could not be compiled.*/var/task/bad\.py.*SyntaxError"):
        packaging.compile_modules(tmp_path, target)


def test_the_local_package_has_bytecode_that_this_python_takes_unseen_and_always_the_same(
    for_this_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bytecode = {importlib.util.cache_from_source(str(file)) for file in for_this_machine.rglob("*.py")}
    assert {str(file) for file in for_this_machine.rglob("*.pyc")} == bytecode
    assert {Path(file).read_bytes()[:8] for file in bytecode} == {importlib.util.MAGIC_NUMBER + UNCHECKED}
    again = tmp_path / "again"
    shutil.copytree(for_this_machine, again, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")  # as while it is deployed
    packaging.compile_modules(again, "local")
    assert not [
        file
        for file in bytecode
        if (again / Path(file).relative_to(for_this_machine)).read_bytes() != Path(file).read_bytes()
    ]


def test_only_the_services_in_use_are_described(for_this_machine: Path) -> None:
    described = [entry.name for entry in (for_this_machine / "botocore/data").iterdir() if entry.is_dir()]
    assert sorted(described) == sorted(packaging.BOTOCORE_SERVICES)


def test_clients_work_from_the_package_alone(for_this_machine: Path) -> None:
    """Without this environment's own packages, as in Lambda."""
    program = f"""
import sys
sys.path.insert(0, {str(for_this_machine)!r})
import aws_lambda_powertools, boto3, nacl.secret, pydantic
for service in {packaging.BOTOCORE_SERVICES!r}:
    client = boto3.client(service, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    print(client.meta.endpoint_url)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [
        "https://dynamodb.eu-west-1.amazonaws.com",
        "https://s3.eu-west-1.amazonaws.com",
        "https://secretsmanager.eu-west-1.amazonaws.com",
        "https://sqs.eu-west-1.amazonaws.com",
    ], done.stderr


def test_films_can_be_read_with_the_package_alone(films_for_this_machine: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(films_for_this_machine)!r})
import av, boto3
from PIL import features
print(all(name in av.codecs_available for name in ("h264", "hevc", "vp9", "av1")), features.check("webp"))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_a_missing_uv_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(Misconfigured, match="uv is missing"):
        packaging.service_code(_settings())


def test_a_missing_compiler_is_named_unless_nothing_is_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packaging, "PYODIDE", tmp_path / "pyodide")
    with pytest.raises(Misconfigured, match="Pyodide is missing"):
        packaging.service_code(_settings())
    packaging.service_code(_settings(**LOCAL))


def _settings(**context: Any) -> Settings:
    return Settings.from_context(App(context=context).node)


def _modules(package: Path) -> list[str]:
    return sorted(str(file.relative_to(package)) for file in package.rglob("*.py"))


def _source(bytecode: Path, package: Path) -> str:
    name, tag, _ = bytecode.name.split(".")
    assert tag == "cpython-313"
    return str((bytecode.parent.parent / f"{name}.py").relative_to(package))


def _size(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def _machine(module: Path) -> int:
    return int.from_bytes(module.read_bytes()[18:20], "little")
