"""The functions' code as one asset, put together by uv. No Docker: every dependency comes as a ready wheel."""

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
NOT_SHIPPED = ("__pycache__", "*.pyc", "tests", "requirements.txt", ".*")

BOTOCORE_SERVICES = ("dynamodb", "secretsmanager")
"""Which API descriptions botocore keeps: all others make the package larger and the start slower."""


def service_code(*, target: Target) -> lambda_.Code:
    """What all functions share: bundled once, and identified by its content."""
    if importlib.util.find_spec("uv") is None:
        raise Misconfigured("uv is missing, which packages the functions: pip install -r requirements.txt")
    return lambda_.Code.from_asset(
        str(ROOT / "functions"),
        asset_hash_type=cdk.AssetHashType.OUTPUT,
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry("never-used"),  # CDK asks for one; the bundler below always succeeds
            local=_Bundler(target),
        ),
    )


def bundle(output: Path, *, target: Target) -> None:
    """Fill a folder with the dependencies and the sources, for AWS or for this machine's interpreter."""
    _install(output, target)
    _trim(output)
    for source in SOURCES:
        shutil.copytree(ROOT / source, output / source, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    if target == "aws":
        _compile(output)


@jsii.implements(cdk.ILocalBundling)
class _Bundler:
    def __init__(self, target: Target) -> None:
        self._target = target

    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        bundle(Path(output_dir), target=self._target)
        return True


def _install(output: Path, target: Target) -> None:
    lambda_platform = ["--python-platform", "aarch64-manylinux2014", "--python-version", "3.13"]
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python", sys.executable, "--target", str(output)),
        *(lambda_platform if target == "aws" else ()),
        *("--only-binary", ":all:", "--no-installer-metadata", "--no-compile-bytecode", "--link-mode", "copy"),
        *("--requirements", str(ROOT / "functions" / "requirements.txt")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"uv could not install the functions' requirements.\n{done.stderr}")
    shutil.rmtree(output / "bin", ignore_errors=True)
    (output / ".lock").unlink(missing_ok=True)
    for record in output.glob("*.dist-info/RECORD"):
        record.unlink()  # it has checksums of scripts that name this machine's interpreter, so assets would differ


def _trim(output: Path) -> None:
    """Leave out the descriptions of services that no function calls; the files beside them stay."""
    for service in (output / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in BOTOCORE_SERVICES:
            shutil.rmtree(service)
    # boto3's resources and examples: the functions use clients.
    for unused in ("data", "examples"):
        shutil.rmtree(output / "boto3" / unused)


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
