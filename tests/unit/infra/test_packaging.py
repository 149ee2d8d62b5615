"""Deployment packages contain the functions' dependencies for the right architecture, and few other files.

These tests run uv and the compiler. uv downloads only wheels that its cache lacks.
"""

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import botocore.session
import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_
from botocore.model import ServiceModel

from infra import packaging
from infra.packaging import bundle
from infra.settings import Architecture, DeploymentSettings, Misconfigured, SearchEngine, Target
from shared.core.telemetry import METRICS
from tests.unit.infra.templates import LOCAL

AARCH64, X86_64 = 183, 62
"""Machine types in ELF headers."""

PYTHON_313 = b"\xf3\r\r\n"
"""First bytes of bytecode that Python 3.13 accepts."""
UNCHECKED = b"\x01\0\0\0"
"""Next bytes of bytecode that Python uses without comparing it with its source file."""


@pytest.fixture(scope="module", autouse=True)
def private_by_default() -> Iterator[None]:
    """Build all packages with an umask that makes new files private to their owner."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that builds a package without bytecode, because compilation is slow. The same program compiles
    all packages."""

    def build(**options: Any) -> Path:
        output = tmp_path_factory.mktemp("uncompiled")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packaging, "compile_modules", lambda *_: None)
            bundle(output, **options)
        return output

    return build


@pytest.fixture(scope="module")
def for_aws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("aws")
    bundle(output, target="aws", media=False)
    return output


@pytest.fixture(scope="module")
def thumbnails_for_aws(uncompiled: Callable[..., Path]) -> Path:
    """Return the package of the media functions without bytecode."""
    return uncompiled(target="aws", media=True)


@pytest.fixture(scope="module")
def thumbnails_for_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("films-local")
    bundle(output, target="local", media=True)
    return output


@pytest.fixture(scope="module")
def for_this_machine(uncompiled: Callable[..., Path]) -> Path:
    """Return the package of most functions for this machine, without bytecode."""
    return uncompiled(target="local", media=False)


def test_compiled_modules_are_for_python_313_on_arm(for_aws: Path, thumbnails_for_aws: Path) -> None:
    for package in (for_aws, thumbnails_for_aws):
        compiled = list(package.rglob("*.so*"))
        assert compiled
        assert {_machine(module) for module in compiled} == {AARCH64}
        assert not [module for module in compiled if "cpython-" in module.name and "cpython-313" not in module.name]


@pytest.fixture(scope="module")
def opensearch_for_x86(uncompiled: Callable[..., Path]) -> Path:
    """Return the package of the search functions with OpenSearch for x86, without bytecode."""
    return uncompiled(target="aws", media=False, search=True, opensearch=True, architecture="x86_64")


def test_other_architecture_can_be_chosen(opensearch_for_x86: Path) -> None:
    assert {_machine(module) for module in opensearch_for_x86.rglob("*.so*")} == {X86_64}


def test_search_package_with_opensearch_has_its_http_client_and_no_embedded_engine(opensearch_for_x86: Path) -> None:
    entries = {entry.name for entry in opensearch_for_x86.iterdir()}
    assert {"opensearchpy", "certifi"} <= entries
    assert {"tantivy", *packaging.REMOVED_WITH_OPENSEARCH}.isdisjoint(entries)
    assert all((opensearch_for_x86 / folder).is_dir() for folder in packaging.ONLY_FOR_SEARCH)
    assert _zipped(opensearch_for_x86) <= 9_500_000
    printed = _run(opensearch_for_x86, "import opensearchpy; print(opensearchpy.OpenSearch.__name__)")
    assert printed == ["OpenSearch"]


def test_packages_are_small(for_aws: Path, thumbnails_for_aws: Path) -> None:
    """Limit the compressed sizes, because Lambda downloads them at a cold start. Lambda's limit of the unpacked size is
    250 MB. A package without bytecode has its sources instead, and a similar size."""
    assert _zipped(for_aws) <= 8_700_000
    assert _zipped(thumbnails_for_aws) <= 45_800_000
    assert 80_000_000 < _size(thumbnails_for_aws) < 150_000_000


@pytest.fixture(scope="module")
def search_for_aws(uncompiled: Callable[..., Path]) -> Path:
    """Return the package of the search functions without bytecode."""
    return uncompiled(target="aws", media=False, search=True)


def test_search_engine_is_in_the_search_package_only(
    for_aws: Path, thumbnails_for_aws: Path, search_for_aws: Path
) -> None:
    for name in ("tantivy", "shared/search", "functions/indexer"):
        assert not (for_aws / name).exists()
        assert not (thumbnails_for_aws / name).exists()
        assert (search_for_aws / name).is_dir()
    (engine,) = (search_for_aws / "tantivy").glob("*.so")
    assert _machine(engine) == AARCH64
    assert not (search_for_aws / "av").exists()
    assert _zipped(search_for_aws) <= 12_800_000  # 15 MB with bytecode


@pytest.fixture(scope="module")
def archive_for_aws(uncompiled: Callable[..., Path]) -> Path:
    """Return the package of the archive functions without bytecode."""
    return uncompiled(target="aws", media=False, archive=True)


def test_parquet_writer_is_in_the_archive_package_only(for_aws: Path, archive_for_aws: Path) -> None:
    package = archive_for_aws
    for name in ("duckdb", "shared/archive", "functions/compactor"):
        assert not (for_aws / name).exists()
        assert (package / name).is_dir()
    (engine,) = package.glob("_duckdb*.so")
    assert _machine(engine) == AARCH64
    assert not (package / "tantivy").exists()
    assert _zipped(package) <= 31_200_000
    assert _size(package) <= 120_000_000


def test_module_compiles_to_the_same_bytes_beside_other_modules_and_a_faulty_one_stops_the_packaging(
    for_aws: Path, thumbnails_for_aws: Path, search_for_aws: Path, archive_for_aws: Path, tmp_path: Path
) -> None:
    """The CDK uploads a package again if one byte differs. The folder has all modules that only some packages have, and
    some that all have."""
    for name in ("av", "PIL", *packaging.ONLY_FOR_MEDIA):
        shutil.copytree(thumbnails_for_aws / name, tmp_path / name)
    for name in ("tantivy", *packaging.ONLY_FOR_SEARCH):
        shutil.copytree(search_for_aws / name, tmp_path / name)
    for name in ("duckdb", *packaging.ONLY_FOR_ARCHIVE):
        shutil.copytree(archive_for_aws / name, tmp_path / name)
    shutil.copytree(search_for_aws / "shared/videos", tmp_path / "shared/videos")
    (tmp_path / "bad.py").write_text("def (")
    with pytest.raises(RuntimeError, match=r"(?s)could not be compiled.*/var/task/bad\.py.*SyntaxError") as raised:
        packaging.compile_modules(tmp_path, "aws")
    assert str(raised.value).count("SyntaxError") == 1
    assert len([*tmp_path.rglob("*.pyc")]) == len([*tmp_path.rglob("*.py")]) - 1 > 100
    common = [*(tmp_path / "shared/videos").rglob("*.pyc")]
    assert len(common) > 10
    assert [file for file in common if file.read_bytes() != (for_aws / file.relative_to(tmp_path)).read_bytes()] == []


def test_media_libraries_are_in_the_media_package_only(for_aws: Path, thumbnails_for_aws: Path) -> None:
    for name in ("av", "av.libs", "PIL"):
        assert not (for_aws / name).exists()
        assert (thumbnails_for_aws / name).is_dir()
    missing = {entry.stem for entry in for_aws.iterdir()} - {entry.stem for entry in thumbnails_for_aws.iterdir()}
    assert not missing


@pytest.mark.parametrize(
    "file", [*(f"functions/{folder}/handler.py" for folder in ("videos", "views", "public")), "shared/__init__.py"]
)
def test_sources_are_where_handlers_import_them_from(for_aws: Path, file: str) -> None:
    assert (for_aws / file).is_file()


def test_console_is_not_in_the_packages_so_that_it_can_change_separately(
    for_aws: Path, thumbnails_for_aws: Path
) -> None:
    """test_site.py tests its separate asset."""
    for package in (for_aws, thumbnails_for_aws):
        assert (package / "functions/public").is_dir()
        assert not (package / "functions/console").exists()


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
def test_package_contains_no_build_leftovers(for_aws: Path, thumbnails_for_aws: Path, pattern: str) -> None:
    assert not [*for_aws.glob(pattern), *thumbnails_for_aws.glob(pattern)]


def test_lambda_can_read_the_package_with_any_umask(for_aws: Path, thumbnails_for_aws: Path) -> None:
    for package in (for_aws, thumbnails_for_aws):
        entries = [package, *package.rglob("*")]
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in entries if entry.is_dir()} == {0o755}
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in entries if entry.is_file()} == {0o644}


def test_every_module_has_bytecode_that_lambdas_python_uses_without_a_check(for_aws: Path) -> None:
    modules = _modules(for_aws)
    assert "functions/videos/handler.py" in modules
    assert modules == sorted(_source(file, for_aws) for file in for_aws.rglob("__pycache__/*.pyc"))
    assert {file.read_bytes()[:8] for file in for_aws.rglob("*.pyc")} == {PYTHON_313 + UNCHECKED}


def test_source_files_are_packaged_for_service_modules_only(for_aws: Path) -> None:
    assert {Path(module).parts[0] for module in _modules(for_aws)} == set(packaging.SOURCES)
    assert (for_aws / "botocore" / "session.pyc").is_file()


def test_same_sources_give_the_same_files_at_another_time_and_place(for_aws: Path, thumbnails_for_aws: Path) -> None:
    files = [file for file in for_aws.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert len(files) > 200
    others = [thumbnails_for_aws / file.relative_to(for_aws) for file in files]
    assert [file for file, other in zip(files, others, strict=True) if file.read_bytes() != other.read_bytes()] == []


def test_tracebacks_contain_file_names_as_in_lambda(for_aws: Path) -> None:
    (bytecode,) = (for_aws / "functions/videos/__pycache__").glob("handler.*.pyc")
    assert b"/var/task/functions/videos/handler.py" in bytecode.read_bytes()
    assert str(for_aws).encode() not in bytecode.read_bytes()


def test_invalid_module_stops_the_packaging_for_this_machine(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1")
    (tmp_path / "bad.py").write_text("def (")
    with pytest.raises(RuntimeError, match=r"(?s)could not be compiled.*/var/task/bad\.py.*SyntaxError"):
        packaging.compile_modules(tmp_path, "local")


def test_local_package_has_bytecode_that_this_python_uses_without_a_check(thumbnails_for_this_machine: Path) -> None:
    bytecode = [*thumbnails_for_this_machine.rglob("*.pyc")]
    assert {file.read_bytes()[:8] for file in bytecode} == {importlib.util.MAGIC_NUMBER + UNCHECKED}
    ours = {Path(importlib.util.cache_from_source(str(file))) for file in thumbnails_for_this_machine.rglob("*.py")}
    assert {file for file in bytecode if file.parent.name == "__pycache__"} == ours


def test_bytecode_does_not_depend_on_pythonoptimize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    (tmp_path / "module.py").write_text("assert False")
    packaging.compile_modules(tmp_path, "local")
    (bytecode,) = (tmp_path / "__pycache__").iterdir()
    assert bytecode.name == f"module.{sys.implementation.cache_tag}.pyc"


def test_excluded_and_retained_paths_exist_in_the_dependencies(tmp_path: Path) -> None:
    """If an upgrade of a dependency renamed an excluded path, the package would contain the files of that path."""
    packaging._install(tmp_path, None, ["thumbnails/requirements.txt"])
    assert [folder for folder in packaging.RETAINED_ENTRIES if not (tmp_path / folder).is_dir()] == []
    named = {
        f"{folder}/{name}": tmp_path / folder / name
        for folder, names in packaging.RETAINED_ENTRIES.items()
        for name in names
    }
    assert [name for name, entry in named.items() if not entry.exists()] == []
    is_linux = sys.platform == "linux"  # elsewhere Pillow keeps its libraries in another folder
    patterns = [pattern for pattern in packaging.REMOVED_FILES if is_linux or not pattern.startswith("pillow.libs")]
    assert [pattern for pattern in patterns if not [*tmp_path.glob(pattern)]] == []


def test_botocore_data_is_packaged_for_the_services_in_use_only(for_this_machine: Path) -> None:
    described = [entry.name for entry in (for_this_machine / "botocore/data").iterdir() if entry.is_dir()]
    assert sorted(described) == sorted(packaging.BOTOCORE_SERVICES)


def test_botocore_services_have_no_documentation(for_this_machine: Path) -> None:
    """The parts that botocore reads are unchanged: all operations, and the members of their inputs."""
    for name in packaging.BOTOCORE_SERVICES:
        (file,) = (for_this_machine / "botocore/data" / name).glob("*/service-2.json")
        assert not re.search(r'"documentation":"[^"]', file.read_text(encoding="utf-8"))
        packaged = ServiceModel(json.loads(file.read_text(encoding="utf-8")), name)
        original = botocore.session.get_session().get_service_model(name)
        assert packaged.operation_names == original.operation_names
        for operation in original.operation_names:
            inputs = [model.operation_model(operation).input_shape for model in (packaged, original)]
            members, all_members = ([*shape.members] if shape else [] for shape in inputs)
            assert members == all_members, operation


UNLOADABLE = {
    "PIL.FpxImagePlugin",
    "PIL.ImageTk",
    "PIL.MicImagePlugin",
    "PIL._tkinter_finder",
    "PIL._typing",
    "botocore.crt.auth",
    "botocore.docs.translator",
    "dateutil.tz.win",
    "dateutil.tzwin",
    "urllib3.http2.connection",
}
"""Modules that need third-party packages, tkinter, other systems or a type checker. No product module imports them."""


def test_every_other_module_can_be_imported_from_the_package_alone(thumbnails_for_this_machine: Path) -> None:
    """No module imports a package that the deployment package omits. This includes the modules of the service."""
    failed = _run(
        thumbnails_for_this_machine,
        """
import importlib, pathlib
failed = []
for file in sorted(pathlib.Path(package).rglob("*.py*")):
    name = ".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
    is_module = file.suffix in (".py", ".pyc") and "-" not in name and "__" not in name
    if is_module and name != "PIL.report":  # which prints
        try:
            importlib.import_module(name)
        except ImportError:
            failed.append(name)
print(*failed)
""",
    )
    assert set(failed) <= UNLOADABLE


def test_modules_loaded_lazily_work_from_the_package_alone(for_this_machine: Path) -> None:
    printed = _run(
        for_this_machine,
        """
import importlib.resources
import shared.aws.messages, shared.aws.stream
from shared.aws import boto3_client, s3, sqs
from shared.aws.runtime import BackgroundResources
from shared.core.telemetry import METRICS, emit, service_logger
from shared.core.position import Position
from shared.openapi.document import document
from shared.web.cursors import Cursors

cursors = Cursors(lambda: "secret")
print(*cursors.open("q", cursors.seal("q", Position(1, "id"), 1), 1))
resources = BackgroundResources()
for client in (boto3_client.make_client(), s3.make_client(), boto3_client.make_secrets_client(), sqs.make_client()):
    print(client.meta.endpoint_url)
print(resources.objects.client.meta.endpoint_url, resources.events().meta.endpoint_url)
print("X-Amz-Signature" in s3.make_client().generate_presigned_url("get_object", {"Bucket": "b", "Key": "k"}))
print(len(document()["paths"]) > 10)
swagger_ui = importlib.resources.files("aws_lambda_powertools.event_handler.openapi.swagger_ui")
print(all(swagger_ui.joinpath(name).read_text("utf-8") for name in ("swagger-ui-bundle.min.js", "swagger-ui.min.css")))
service_logger().warning("a line")
emit({min(METRICS): 1})
""",
    )
    assert printed[:10] == [
        *("1", "id"),
        "https://dynamodb.eu-west-1.amazonaws.com",
        "https://s3.eu-west-1.amazonaws.com",
        "https://secretsmanager.eu-west-1.amazonaws.com",
        "https://sqs.eu-west-1.amazonaws.com",
        *("https://s3.eu-west-1.amazonaws.com", "https://events.eu-west-1.amazonaws.com"),
        *("True", "True"),
    ]
    assert printed[10] == "True"
    assert f'"{min(METRICS)}":[1.0]' in "".join(printed[11:])


def test_media_package_reads_videos_and_makes_pictures_alone(thumbnails_for_this_machine: Path) -> None:
    printed = _run(
        thumbnails_for_this_machine,
        """
import io, av
from PIL import Image, features
from shared.media import frames, poster, probe, storyboard
print(all(name in av.codecs_available for name in ("h264", "hevc", "vp9", "av1")))
for form in ("JPEG", "WEBP", "PNG"):
    data = io.BytesIO()
    Image.new("RGB", (640, 360), "red").save(data, form)
    print(Image.open(data).resize((64, 36), Image.Resampling.LANCZOS).getpixel((9, 9))[0] > 250)
""",
    )
    assert printed == ["True"] * 4


def _run(package: Path, program: str) -> list[str]:
    """Run a program that can import only a package and the standard library, as in Lambda. Return the words of its
    output."""
    start = f"import sys\npackage = {str(package)!r}\nsys.path.insert(0, package)\n"
    settings = {
        **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "a"),
        "AWS_DEFAULT_REGION": "eu-west-1",
        "ENVIRONMENT": "tests",
    }
    command = [sys.executable, "-I", "-S", "-B", "-W", "ignore", "-c", start + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_missing_uv_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(Misconfigured, match="uv, which packages the functions, is not installed"):
        packaging.service_code(_settings())


def test_missing_compiler_is_named_unless_there_is_nothing_to_compile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packaging, "PYODIDE", tmp_path / "pyodide")
    with pytest.raises(Misconfigured, match="Pyodide, which compiles the functions, is not installed"):
        packaging.service_code(_settings())
    packaging.service_code(_settings(**LOCAL))


def test_package_for_this_machine_is_rebuilt_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second local deployment, or a `cdk diff`, into the same folder packages nothing."""
    builds: list[Path] = []

    def make(output: Path, **_options: object) -> None:
        builds.append(output)
        (output / "handler.py").touch()

    def synthesise() -> None:
        app = App(outdir=str(tmp_path / "out"), context=LOCAL)
        code = packaging.service_code(DeploymentSettings.from_context(app.node))
        lambda_.Function(Stack(app, "S"), "F", code=code, handler="handler.f", runtime=lambda_.Runtime.PYTHON_3_13)
        app.synth()

    for folder in ("functions", "shared"):
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(packaging, "ROOT", tmp_path)
    monkeypatch.setattr(packaging, "bundle", make)
    for written, count in (("shared/a.py", 1), ("shared/__pycache__/a.pyc", 1), ("functions/requirements.txt", 2)):
        (tmp_path / written).write_text("")
        for _ in range(2):
            synthesise()
        assert len(builds) == count, written


@pytest.mark.parametrize(
    ("architecture", "engine"), [*zip(get_args(Architecture), get_args(SearchEngine), strict=True)]
)
def test_cdk_packages_each_kind_of_function_for_the_architecture_and_the_search_engine_of_the_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: Architecture, engine: SearchEngine
) -> None:
    bundled: list[tuple[str, ...]] = []

    def bundle_names(output: Path, *, target: Target, architecture: Architecture, **added: bool) -> None:
        names = [name for name, is_added in added.items() if is_added]
        bundled.append((target, architecture, *names))
        (output / "handler.py").write_text(f"{names[-1:]}")

    monkeypatch.setattr(packaging, "bundle", bundle_names)
    app = App(outdir=str(tmp_path / "out"), context={"architecture": architecture, "searchEngine": engine})
    settings, stack = DeploymentSettings.from_context(app.node), Stack(app, "S")
    options: list[dict[str, bool]] = [{}, {"media": True}, {"search": True}, {"archive": True}]
    for number, kind in enumerate(options):
        code = packaging.service_code(settings, **kind)
        lambda_.Function(stack, f"F{number}", code=code, handler="handler.f", runtime=lambda_.Runtime.PYTHON_3_13)
    app.synth()
    assert bundled == [
        ("aws", architecture),
        ("aws", architecture, "media"),
        ("aws", architecture, *(["opensearch"] if engine == "opensearch" else []), "search"),
        ("aws", architecture, "archive"),
    ]
    contents = [file.read_text(encoding="utf-8") for file in (tmp_path / "out").glob("asset.*/handler.py")]
    assert sorted(contents) == ["['archive']", "['media']", "['search']", "[]"]


def _settings(**context: Any) -> DeploymentSettings:
    return DeploymentSettings.from_context(App(context=context).node)


def _modules(package: Path) -> list[str]:
    return sorted(str(file.relative_to(package)) for file in package.rglob("*.py"))


def _source(bytecode: Path, package: Path) -> str:
    name, tag, _ = bytecode.name.split(".")
    assert tag == "cpython-313"
    return str((bytecode.parent.parent / f"{name}.py").relative_to(package))


def _size(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file())


def _zipped(package: Path) -> int:
    """Return the approximate size of the zip file that the CDK uploads. zlib's lowest level is fast, and its output is
    about 8 % larger than that file."""
    files = [file for file in package.rglob("*") if file.is_file()]
    with ThreadPoolExecutor() as pool:  # zlib releases the GIL
        compressed = sum(pool.map(lambda file: len(zlib.compress(file.read_bytes(), 1)), files))
    headers = sum(100 + 2 * len(str(file.relative_to(package))) for file in files)
    return compressed + headers


def _machine(module: Path) -> int:
    return int.from_bytes(module.read_bytes()[18:20], "little")
