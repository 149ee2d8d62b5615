"""The functions' code as two assets, put together by uv. No Docker: every dependency comes as a ready wheel.

One is shared by all functions but those that read films. The other holds FFmpeg as well and is four times as large
(about 150 MB of the 250 that Lambda takes), which would make every start slower.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_

from infra.settings import Misconfigured, Target

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("functions", "shared")
FOR_DEVELOPERS = ("*.pyi", "*.pxd", "*.pyx", "*.c", "*.h")
NOT_SHIPPED = ("__pycache__", "*.pyc", "tests", "requirements.txt", ".*")

FILMS = "thumbnails"
"""The folder below `functions/` whose own requirements the second asset adds."""

PLATFORM = "aarch64-manylinux_2_28"
"""What Lambda's Python 3.13 runs on: Amazon Linux 2023 has glibc 2.34, and PyAV's wheels ask for 2.28."""

BOTOCORE_SERVICES = ("dynamodb", "s3", "secretsmanager", "sqs")
"""Which API descriptions botocore keeps: all others make the package larger and the start slower."""


def service_code(*, target: Target, films: bool = False) -> lambda_.Code:
    """What functions are made of, identified by its content; `films`: what reads films comes with it.

    For one stack: an asset cannot be in two. It is bundled once even so, because CDK bundles nothing twice that has
    the same path and options. It takes all bundlers for the same, so the two assets need two paths.
    """
    if importlib.util.find_spec("uv") is None:
        raise Misconfigured("uv is missing, which packages the functions: pip install -r requirements.txt")
    path = ROOT / "functions"
    return lambda_.Code.from_asset(
        str(path / FILMS if films else path),
        asset_hash_type=cdk.AssetHashType.OUTPUT,
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry("never-used"),  # CDK asks for one; the bundler below always succeeds
            local=_Bundler(target, films=films),
        ),
    )


def bundle(output: Path, *, target: Target, films: bool) -> None:
    """Fill a folder with the dependencies and the sources, for AWS or for this machine's interpreter."""
    _install(output, target, films)
    _trim(output)
    for source in SOURCES:
        shutil.copytree(ROOT / source, output / source, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    if target == "aws":
        _compile(output)


@jsii.implements(cdk.ILocalBundling)
class _Bundler:
    def __init__(self, target: Target, *, films: bool) -> None:
        self._target: Target = target
        self._films = films

    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        bundle(Path(output_dir), target=self._target, films=self._films)
        return True


def _install(output: Path, target: Target, films: bool) -> None:
    lambda_platform = ["--python-platform", PLATFORM, "--python-version", "3.13"]
    folders = [ROOT / "functions", *([ROOT / "functions" / FILMS] if films else [])]
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python", sys.executable, "--target", str(output)),
        *(lambda_platform if target == "aws" else ()),
        *("--only-binary", ":all:", "--no-installer-metadata", "--no-compile-bytecode", "--link-mode", "copy"),
        *(part for folder in folders for part in ("--requirements", str(folder / "requirements.txt"))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"uv could not install the functions' requirements.\n{done.stderr}")
    shutil.rmtree(output / "bin", ignore_errors=True)
    (output / ".lock").unlink(missing_ok=True)
    for record in output.glob("*.dist-info/RECORD"):
        record.unlink()  # it has checksums of scripts that name this machine's interpreter, so assets would differ


def _trim(output: Path) -> None:
    """Leave out the descriptions of services that no function calls, and what only compilers and editors read."""
    for service in (output / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in BOTOCORE_SERVICES:
            shutil.rmtree(service)
    # boto3's resources and examples: the functions use clients.
    for unused in ("data", "examples"):
        shutil.rmtree(output / "boto3" / unused)
    for pattern in FOR_DEVELOPERS:
        for file in output.rglob(pattern):
            file.unlink()


def _compile(output: Path) -> None:
    """Ship bytecode, when a Python 3.13 is at hand: in Lambda the code's folder is read-only, so that every cold
    start would compile again, which makes it more than twice as long. Unchecked, so that dates do not matter."""
    python = _python_313()
    if python is None:
        sys.stderr.write("No python3.13 on the PATH: packaging without bytecode, so cold starts are slower.\n")
        return
    command = [
        *(python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"),
        *("-s", str(output), "-p", "/var/task", str(output)),
    ]
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "PYTHONHASHSEED": "0"})


def _python_313() -> str | None:
    """One that really runs: a version manager's stand-in may be on the PATH without its version being enabled."""
    for candidate in (sys.executable, shutil.which("python3.13")):
        if candidate and _version(candidate) == "3.13":
            return candidate
    return None


def _version(python: str) -> str:
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
    return done.stdout.strip()
