"""The files that `make sam-env` writes, and the commands on the page about `sam local invoke`."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from local import ROOT, LocalError, sam
from local.assembly import SynthesizedFunction, synthesised
from local.events import EVENTS, examples
from tests.unit.infra.templates import Templates

ENDPOINT = "http://127.0.0.1:4566"
PARTS = ("Api", "Jobs", "Media")


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    """Return the folder of a small assembly: a function of the service, a function of the CDK, and another resource."""
    template = {
        "Resources": {
            "VideosFunction1": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Handler": "functions.videos.handler.lambda_handler",
                    "Architectures": ["arm64"],
                    "MemorySize": 512,
                    "Runtime": "python3.13",
                    "Timeout": 28,
                    "Environment": {"Variables": {"TABLE_NAME": {"Ref": "Table"}}},
                },
                "Metadata": {"aws:asset:path": "asset.1"},
            },
            "Provider": {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "index.handler"}},
            "Table": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {}},
        }
    }
    (tmp_path / "VideoMetadata-dev-Api.template.json").write_text(json.dumps(template))
    (tmp_path / "VideoMetadata-dev-Data.template.json").write_text('{"Resources": {}}')
    return tmp_path


def test_page_has_the_command_of_every_function_and_event(defaults: Templates) -> None:
    functions = _functions(defaults)
    text = sam.PAGE.read_text(encoding="utf-8")
    assert text == sam.page(text, functions), "run: make sam-env, then python -m local.sam --page"
    for example in examples():
        assert f" -e {example.path.relative_to(EVENTS.parent)}\n" in text


def test_debugger_example_names_an_existing_function(defaults: Templates) -> None:
    text = sam.PAGE.read_text(encoding="utf-8")
    assert f"FUNCTION={defaults.function('videos')[0]}\n" in text


def test_functions_have_the_same_names_in_sam_and_on_ministack(defaults: Templates, local: Templates) -> None:
    assert [function.logical_id for function in _functions(defaults)] == [
        function.logical_id for function in _functions(local)
    ]


def _functions(templates: Templates) -> list[SynthesizedFunction]:
    """Return the functions as `make sam-env` finds them in its assembly."""
    functions = []
    for folder in {path.parent.name for path in (EVENTS.parent / "functions").glob("*/handler.py")}:
        logical_id, properties = templates.function(folder)
        (stack,) = (
            name
            for name, part in zip(templates.names, _parts(templates), strict=True)
            if logical_id in part["Resources"]
        )
        template = Path(f"{stack}.template.json")
        functions.append(SynthesizedFunction(folder, properties["Handler"], stack, logical_id, template, Path("asset")))
    return sorted(functions, key=lambda function: function.folder)


def _parts(templates: Templates) -> list[dict[str, dict[str, object]]]:
    return [getattr(templates, name.split("-")[-1].lower()) for name in templates.names]


def test_functions_outside_the_service_are_not_found(assembly: Path) -> None:
    (function,) = synthesised(assembly)
    assert (function.folder, function.logical_id, function.stack) == (
        "videos",
        "VideosFunction1",
        "VideoMetadata-dev-Api",
    )
    assert function.asset == assembly / "asset.1"


def test_folder_without_functions_is_not_an_assembly(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no function"):
        synthesised(tmp_path)


def test_template_declares_variables_without_values_and_without_references(assembly: Path) -> None:
    (function,) = synthesised(assembly)
    template = sam.template(
        [function], {function.logical_id: {"TABLE_NAME": "VideoMetadata", "AWS_REGION": "us-east-1"}}
    )
    (resource,) = template["Resources"].values()
    assert list(template["Resources"]) == ["VideosFunction1"]
    assert resource["Properties"]["Environment"] == {"Variables": {"TABLE_NAME": "", "AWS_REGION": ""}}
    assert resource["Properties"]["Handler"] == "functions.videos.handler.lambda_handler"
    assert resource["Metadata"] == {"aws:asset:path": str(assembly / "asset.1"), "aws:asset:property": "Code"}
    assert not {"Ref", "Fn::GetAtt", "Fn::ImportValue"} & set(re.findall(r'"([\w:]+)"', json.dumps(template)))


def test_samconfig_names_the_written_files() -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))["default"]
    written = {sam.SAM / name for name in (sam.TEMPLATE, sam.VARIABLES)}
    assert {
        ROOT / config["global"]["parameters"]["template_file"],
        ROOT / config["local_invoke"]["parameters"]["env_vars"],
    } == written


def test_sam_and_runtime_requirements_pin_the_same_sam_cli() -> None:
    texts = [(ROOT / "tests" / name / "requirements.txt").read_text(encoding="utf-8") for name in ("sam", "runtime")]
    pins = [re.findall(r"^aws-sam-cli==\S+$", text, re.MULTILINE) for text in texts]
    assert pins[0] == pins[1] != []


@pytest.mark.parametrize(
    ("system", "address"),
    [
        ("Linux", ENDPOINT),
        ("Darwin", "http://host.docker.internal:4566"),
        ("Windows", "http://host.docker.internal:4566"),
    ],
)
def test_container_reaches_ministack(system: str, address: str) -> None:
    assert sam.from_container(ENDPOINT, system) == address


def test_page_without_its_marks_is_unchanged() -> None:
    with pytest.raises(ValueError, match="no marks"):
        sam.page("# A page", [])


def test_command_fails_without_a_running_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam, "running_service", _not_running)
    assert sam.main([]) == 1
    assert "make run" in capsys.readouterr().err


def test_no_commands_are_written_without_templates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam, "SAM", tmp_path / "sam")
    assert sam.main(["--page"]) == 1
    assert "make sam-env" in capsys.readouterr().err


def _not_running() -> dict[str, str]:
    raise LocalError("The service is not running. Start it with `make run` in another terminal.")
