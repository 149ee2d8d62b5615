"""The mock of the API, with which the console's layout is tested, conforms to the OpenAPI document."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from shared.openapi.document import document
from tests.e2e.mock_api import SEARCHED, MockApi, find, operations, upload_id, video_id

IDS = {
    "videoId": video_id(0),
    "playlistId": video_id(1),
    "webhookId": video_id(2),
    "uploadId": upload_id(0),
    "question": "deletions",
}


def address(path: str) -> str:
    """Return a path of the document with values for its parameters."""
    return re.sub(r"\{(\w+)\}", lambda match: IDS.get(match[1], "x"), path)


@pytest.mark.parametrize("state", ["full", "empty"])
def test_every_response_of_the_mock_conforms_to_the_document(state: Any) -> None:
    described = document()
    api = MockApi("http://127.0.0.1:1", state=state)
    checked = set()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            reply = api.respond(method.upper(), address(path), f"q={SEARCHED}")
            if reply.kind != "application/json":
                continue
            content = operation["responses"][str(reply.status)]["content"][reply.kind]
            if "schema" in content:
                schema = {"components": described["components"], **content["schema"]}
                jsonschema_rs.Draft202012Validator(schema).validate(json.loads(reply.body))
                checked.add(operation["operationId"])
    assert api.samples().keys() <= checked | {"createUpload"}


def test_mock_finds_the_operation_whose_path_has_fewer_parameters() -> None:
    assert {find("POST", "/v1/videos/batch-get")[0].name, find("GET", "/v1/videos/x")[0].name} == {
        "batchGetVideos",
        "getVideo",
    }
    assert len({operation.name for operation in operations()}) == len(operations())


def test_mock_refuses_a_request_that_the_document_does_not_have() -> None:
    with pytest.raises(LookupError, match="GET /v1/nothing is not in the OpenAPI document"):
        MockApi("").respond("GET", "/v1/nothing")


def test_mock_in_the_state_empty_lists_nothing_and_in_the_state_failing_responds_503() -> None:
    assert json.loads(MockApi("", state="empty").respond("GET", "/v1/videos").body)["items"] == []
    assert MockApi("", state="failing").respond("GET", "/v1/videos").status == 503


def test_video_that_is_not_ready_cannot_be_played_in_the_mock() -> None:
    assert MockApi("").respond("GET", f"/v1/videos/{video_id(3)}/playback").status == 409
