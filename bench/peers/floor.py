"""Another implementation of the API (a peer), with the least overhead. It uses no framework and no models.

It signs requests itself, and sends them with http.client. It validates almost nothing.
"""

import base64
import hashlib
import hmac
import json
import os
import ssl
import time
import uuid
from functools import lru_cache
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

TABLE_NAME = os.environ["TABLE_NAME"]
REGION = os.environ["AWS_DEFAULT_REGION"]
ENDPOINT = urlsplit(os.environ["AWS_ENDPOINT_URL_DYNAMODB"])
ACCESS_KEY, SECRET_KEY = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
TYPE = "application/x-amz-json-1.0"
HEADERS = {"Content-Type": "application/json"}
connection = (
    HTTPSConnection(ENDPOINT.netloc, context=ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"]))
    if ENDPOINT.scheme == "https"
    else HTTPConnection(ENDPOINT.netloc)
)


@lru_cache(maxsize=1)
def _key(day: str) -> bytes:
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (day, REGION, "dynamodb", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _send(operation: str, request_body: dict[str, Any]) -> Any:
    body = json.dumps(request_body).encode()
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = f"DynamoDB_20120810.{operation}"
    names = "content-type;host;x-amz-date;x-amz-target"
    canonical = (
        f"POST\n/\n\ncontent-type:{TYPE}\nhost:{ENDPOINT.netloc}\nx-amz-date:{now}\nx-amz-target:{target}\n\n{names}\n"
        + hashlib.sha256(body).hexdigest()
    )
    scope = f"{now[:8]}/{REGION}/dynamodb/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.digest(_key(now[:8]), text.encode(), "sha256").hex()
    headers = {
        "Host": ENDPOINT.netloc,
        "Content-Type": TYPE,
        "X-Amz-Date": now,
        "X-Amz-Target": target,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}",
    }
    connection.request("POST", "/", body, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(answer)
    return answer


def _decoded(item: dict[str, Any]) -> dict[str, Any]:
    return {name: _decode(*value.popitem()) for name, value in item.items()}


def _decode(kind: str, value: Any) -> Any:
    if kind == "N":
        return float(value) if "." in value else int(value)
    if kind == "M":
        return _decoded(value)
    if kind == "L":
        return [_decode(*element.popitem()) for element in value]
    return value


def _encoded(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | float):
        return {"N": str(value)}
    if isinstance(value, dict):
        return {"M": {name: _encoded(part) for name, part in value.items()}}
    return {"L": [_encoded(element) for element in value]}


def _respond(status: int, content: Any) -> dict[str, Any]:
    return {"statusCode": status, "headers": HEADERS, "body": json.dumps(content)}


def lambda_handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle a request. Entry point of the Lambda function."""
    user = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    route = event["routeKey"]
    if route == "POST /v1/videos":
        now = int(time.time())
        video = {"videoId": str(uuid.uuid4()), "userId": user, "createdAt": now, "updatedAt": now}
        video |= {"status": "uploaded", "visibility": "private", "viewCount": 0, "version": 1}
        video |= {"resolutions": {}, "metadata": {}, "thumbnails": {}, **json.loads(event["body"])}
        item = {name: _encoded(value) for name, value in video.items()}
        new = "attribute_not_exists(videoId)"
        _send("PutItem", {"TableName": TABLE_NAME, "Item": item, "ConditionExpression": new})
        return _respond(201, video)
    if route == "GET /v1/videos":
        query = event["queryStringParameters"]
        request = {
            "TableName": TABLE_NAME,
            "IndexName": "by-owner",
            "KeyConditionExpression": "userId = :user",
            "ExpressionAttributeValues": {":user": {"S": query["userId"]}},
            "ScanIndexForward": False,
            "Limit": int(query["limit"]),
        }
        if "cursor" in query:
            request["ExclusiveStartKey"] = json.loads(base64.urlsafe_b64decode(query["cursor"]))
        page = _send("Query", request)
        last = page.get("LastEvaluatedKey")
        cursor = base64.urlsafe_b64encode(json.dumps(last).encode()).decode() if last else None
        return _respond(200, {"items": [_decoded(item) for item in page["Items"]], "nextCursor": cursor})
    video_id = event["pathParameters"]["videoId"]
    key = {"TableName": TABLE_NAME, "Key": {"videoId": {"S": video_id}}}
    if route == "GET /v1/videos/{videoId}":
        found = _send("GetItem", key).get("Item")
        if found is None:
            return _respond(404, {"message": "The video does not exist."})
        video = _decoded(found)
        if video["userId"] != user and (video["status"], video["visibility"]) != ("ready", "public"):
            return _respond(404, {"message": "The video does not exist."})
        return _respond(200, video)
    change = {
        "UpdateExpression": "ADD viewCount :one",
        "ConditionExpression": "attribute_exists(videoId)",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
        "ReturnValues": "UPDATED_NEW",
    }
    counted = _send("UpdateItem", key | change)
    return _respond(200, {"videoId": video_id, "viewCount": int(counted["Attributes"]["viewCount"]["N"])})
