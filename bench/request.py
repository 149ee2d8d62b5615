"""A whole request in the function, without network or DynamoDB's time: `python -m bench.request`.

Shows what the service adds to its one or two calls: event, routing, checks, model, answer.
"""

import json
import logging
from typing import Any

from bench.client import ENCODED, answering
from bench.measure import compare
from shared.aws.boto3_client import make_client
from shared.aws.dynamodb import Table
from shared.routes import ROUTES
from tests.harness import Context, make_api, make_event

STORED = {
    **ENCODED,
    "videoId": {"S": "3f2504e0-4f89-41d3-9a0c-0305e82c3301"},
    "userId": {"S": "alice"},
    "status": {"S": "ready"},
    "visibility": {"S": "public"},
    "thumbnails": {"M": {}},
}
"""A whole video, as the client's canned answer to GetItem."""


def main() -> None:
    """Print the ratios."""
    logging.disable()
    ENCODED.update(STORED)
    client = answering(make_client())
    api = make_api(Table("T", client))
    route = next(route for route in ROUTES if route.operation == "getVideo")
    path = f"/v1/videos/{STORED['videoId']['S']}"
    read = make_event("GET", path, None, "fields=title,duration", {}, "alice", "videos/read", route)
    create_route = next(route for route in ROUTES if route.operation == "createVideo")
    body = json.dumps({"title": "t", "duration": 1, "tags": ["a", "b"], "metadata": {"k": 1}})
    headers = {"content-type": "application/json"}
    create = make_event("POST", "/v1/videos", body, "", headers, "alice", "videos/write", create_route)
    context: Any = Context()
    key: Any = {"pk": {"S": "p"}, "sk": {"S": "s"}}
    compare(
        "GET /v1/videos/{videoId}?fields=...",
        {
            "its GetItem alone": lambda: client.get_item(TableName="T", Key=key),
            "the whole request": lambda: api.handlers["videos"](read, context),
        },
        calls=10,
    )
    compare(
        "POST /v1/videos",
        {
            "its PutItem alone": lambda: client.put_item(TableName="T", Item=ENCODED),
            "the whole request": lambda: api.handlers["videos"](create, context),
        },
        calls=10,
    )


if __name__ == "__main__":
    main()
