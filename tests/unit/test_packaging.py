"""What is deployed holds what the functions need for the right machine, and not much else.

These run uv for real, from its cache when the wheels are there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from infra import packaging
from infra.packaging import bundle
from infra.settings import Misconfigured

AARCH64 = 183
"""How an ELF file names its machine."""


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


def test_fits_lambda_with_room_to_spare(for_aws: Path, films_for_aws: Path) -> None:
    """Lambda takes 250 MB; a jump means that something came in by mistake. Bytecode is part of it where it is made."""
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


def test_bytecode_is_from_python_313_or_absent(for_aws: Path) -> None:
    """Bytecode that Lambda's Python cannot use would only make the package larger."""
    assert not [file for file in for_aws.rglob("*.pyc") if not file.name.endswith(".cpython-313.pyc")]


def test_the_local_package_has_no_bytecode(for_this_machine: Path) -> None:
    assert not list(for_this_machine.rglob("*.pyc"))


def test_only_the_services_in_use_are_described(for_this_machine: Path) -> None:
    described = [entry.name for entry in (for_this_machine / "botocore/data").iterdir() if entry.is_dir()]
    assert sorted(described) == sorted(packaging.BOTOCORE_SERVICES)


def test_clients_work_from_the_package_alone(for_this_machine: Path) -> None:
    """Without this environment's own packages, as in Lambda."""
    program = f"""
import sys
sys.path.insert(0, {str(for_this_machine)!r})
import aws_lambda_powertools, boto3, cryptography, pydantic
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
        packaging.service_code(target="aws")


def _size(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def _machine(module: Path) -> int:
    return int.from_bytes(module.read_bytes()[18:20], "little")
