"""What `make sam-env` writes, and that the page about `sam local invoke` has the commands for it."""

import json
from pathlib import Path

import pytest

from local import LocalError, sam
from local.assembly import Synthesised, synthesised
from local.aws import Aws
from local.events import EVENTS, examples
from tests.unit.infra.templates import Templates

ENDPOINT = "http://127.0.0.1:4566"
AWS = Aws(ENDPOINT, "http://127.0.0.1:4568", "a secret")
PARTS = ("Api", "Jobs", "Media")


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    """A small assembly: one of our functions, one that the CDK brings, and something else."""
    template = {
        "Resources": {
            "VideosFunction1": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Handler": "functions.videos.handler.lambda_handler",
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


def test_the_page_has_the_command_of_every_function_and_event(aws: Templates) -> None:
    functions = _functions(aws)
    text = sam.PAGE.read_text(encoding="utf-8")
    assert text == sam.page(text, functions), "run: make sam-env, then python -m local.sam --page"
    for example in examples():
        assert f" -e {example.path.relative_to(EVENTS.parent)}\n" in text


def test_the_debugger_s_example_names_a_function_that_there_is(aws: Templates) -> None:
    text = sam.PAGE.read_text(encoding="utf-8")
    assert f"FUNCTION={aws.function('videos')[0]}\n" in text


def test_functions_have_the_same_names_for_sam_as_on_ministack(aws: Templates, local: Templates) -> None:
    assert [function.logical_id for function in _functions(aws)] == [
        function.logical_id for function in _functions(local)
    ]


def _functions(templates: Templates) -> list[Synthesised]:
    """The functions as `make sam-env` finds them in its assembly."""
    functions = []
    for folder in {path.parent.name for path in (EVENTS.parent / "functions").glob("*/handler.py")}:
        logical_id, properties = templates.function(folder)
        (stack,) = (
            name
            for name, part in zip(templates.names, _parts(templates), strict=True)
            if logical_id in part["Resources"]
        )
        template = Path(f"{stack}.template.json")
        functions.append(Synthesised(folder, properties["Handler"], stack, logical_id, template, Path("asset")))
    return sorted(functions, key=lambda function: function.folder)


def _parts(templates: Templates) -> list[dict[str, dict[str, object]]]:
    return [getattr(templates, name.split("-")[-1].lower()) for name in templates.names]


def test_only_the_service_s_own_functions_are_found(assembly: Path) -> None:
    (found,) = synthesised(assembly)
    assert (found.folder, found.logical_id, found.stack) == ("videos", "VideosFunction1", "VideoMetadata-dev-Api")
    assert found.asset == assembly / "asset.1"


def test_a_folder_without_functions_is_not_an_assembly(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no function"):
        synthesised(tmp_path)


def test_variables_are_declared_beside_those_that_a_function_has(assembly: Path) -> None:
    (found,) = synthesised(assembly)
    declared = json.loads(sam.declaring(found.template.read_text(), AWS.environment()))
    variables = declared["Resources"]["VideosFunction1"]["Properties"]["Environment"]["Variables"]
    assert variables == {"TABLE_NAME": {"Ref": "Table"}, **dict.fromkeys(AWS.environment(), "")}


@pytest.mark.parametrize(
    ("system", "seen"),
    [
        ("Linux", ENDPOINT),
        ("Darwin", "http://host.docker.internal:4566"),
        ("Windows", "http://host.docker.internal:4566"),
    ],
)
def test_a_container_finds_ministack(system: str, seen: str) -> None:
    assert sam.from_container(ENDPOINT, system) == seen


def test_a_page_without_its_marks_is_not_written_to() -> None:
    with pytest.raises(ValueError, match="no marks"):
        sam.page("# A page", [])


def test_without_a_service_there_is_nothing_to_make_ready_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam, "running_service", _not_running)
    assert sam.main([]) == 1
    assert "make run" in capsys.readouterr().err


def test_without_templates_no_commands_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sam, "SAM", tmp_path / "sam")
    assert sam.main(["--page"]) == 1
    assert "make sam-env" in capsys.readouterr().err


def _not_running() -> dict[str, str]:
    raise LocalError("The service is not running: start it with `make run` in another terminal.")
