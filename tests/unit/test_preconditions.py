"""`If-Match` of every operation that accepts it: a write that names an older version is refused and stores nothing."""

from typing import Any

import pytest

from local.testbed.calls import BODIES, PATH_PARAMETERS, path_of
from local.testbed.harness import Api, Reply
from shared.openapi.document import document
from shared.routes import ROUTES, Route
from tests.integration.contents import items_of
from tests.unit.test_authorization import AccessTestbed, testbed  # noqa: F401 -- a fixture
from tests.unit.test_declared_statuses import CAPTIONS, CREDIT

CONDITIONAL = [
    route
    for route in ROUTES
    if any(
        parameter.get("name") == "If-Match"
        for parameter in document()["paths"][route.path][route.method.lower()].get("parameters", [])
    )
]
OTHER_CAPTIONS = CAPTIONS | {"body": str(CAPTIONS["body"]).replace("Hello", "Goodbye")}

CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "/credits/{personId}": ("PUT", {"json_body": CREDIT | {"ordering": 2}}),
    "/releases/{region}": ("PUT", {"json_body": {"titles": [{"title": "Another"}]}}),
    "/releases/{region}/{language}": ("PUT", {"json_body": {"titles": [{"title": "Another"}]}}),
    "/captions/{language}": ("PUT", OTHER_CAPTIONS),
    "/chapters": ("PUT", {"json_body": {"chapters": [{"start": 0, "title": "Another"}]}}),
    "/v1/webhooks/{webhookId}": ("PATCH", {"json_body": {"paused": True}}),
    "/v1/playlists/{playlistId}": ("PATCH", {"json_body": {"title": "Another"}}),
    "/v1/videos/{videoId}": ("PATCH", {"json_body": {"title": "Another"}}),
}
"""Change by another client, for each kind of resource. The keys are ends of paths."""

CREATIONS = [route for route in CONDITIONAL if route.method == "PUT"]
"""Operations that create the resource if it does not exist."""


def _versioned_path(path: str) -> str:
    """Return the path of the resource whose version the operation compares with `If-Match`."""
    for end in ("/restore", "/revert", "/rotate", "/replay", "/entries", "/entries/{videoId}"):
        path = path.removesuffix(end)
    return path


def _stored(api: Api) -> list[Any]:
    return sorted(items_of(api.table), key=str)


def _path_parameters(testbed: AccessTestbed, route: Route) -> dict[str, str]:  # noqa: F811
    """Create the items of alice that an operation needs, and return its path parameters."""
    if route.path.startswith("/v1/playlists"):
        first, second = (str(testbed.api.publish()["videoId"]) for _ in range(2))
        listed = [first] if route.operation == "appendEntry" else [first, second]
        return {"playlistId": testbed.playlist("private", *listed), "videoId": second}
    if route.path.startswith("/v1/webhooks"):
        return {"webhookId": testbed.api.post("/v1/webhooks", BODIES["createWebhook"]).json["webhookId"]}
    return {"videoId": testbed.video("private", route.function)}


@pytest.mark.parametrize("route", CONDITIONAL, ids=lambda route: route.operation)
def test_a_write_with_an_older_version_is_refused_and_with_the_current_version_succeeds(
    testbed: AccessTestbed,  # noqa: F811
    route: Route,
) -> None:
    api, parameters = testbed.api, _path_parameters(testbed, route)
    path = _versioned_path(route.path).format_map({**PATH_PARAMETERS, **parameters})
    old = api.get(path).headers.get("etag", '"1"')  # GET of a region returns a list, which has no ETag
    method, change = next(change for end, change in CHANGES.items() if _versioned_path(route.path).endswith(end))
    changed = api.request(method, path, **change)
    assert changed.status == 200
    if route.operation == "restoreVideo":
        assert api.delete(path).status == 204
    testbed.background.settle()
    present, before = api.get(path).headers.get("etag", changed.etag), _stored(api)
    assert old != present

    def send(tag: str) -> Reply:
        body = {"videoId": parameters["videoId"]} if route.operation == "appendEntry" else BODIES.get(route.operation)
        return api.request(route.method, path_of(route, **parameters), json_body=body, headers={"If-Match": tag})

    for tag in (old, f"W/{present}"):
        refused = send(tag)
        assert (refused.status, refused.slug) == (412, "version-mismatch")
        assert _stored(api) == before
    assert send(f"{old}, {present}").status < 300


@pytest.mark.parametrize("tag", ['"1"', "*"])
@pytest.mark.parametrize("route", CREATIONS, ids=lambda route: route.operation)
def test_a_write_with_if_match_creates_nothing(testbed: AccessTestbed, route: Route, tag: str) -> None:  # noqa: F811
    path = path_of(route, videoId=str(testbed.api.publish()["videoId"]))
    before = _stored(testbed.api)
    reply = testbed.api.put(path, BODIES[route.operation], headers={"If-Match": tag})
    assert (reply.status, reply.slug) == (412, "version-mismatch")
    assert _stored(testbed.api) == before
