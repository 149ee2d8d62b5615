"""Another implementation of the API (a peer), without a framework. It uses boto3's client, and pydantic models for
requests and responses."""

import base64
import json
import os
import time
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError

from bench.peers.models import NewVideoModel, PageModel, SummaryModel, VideoModel, ViewsModel

TABLE_NAME = os.environ["TABLE_NAME"]
dynamodb = boto3.client("dynamodb")
serializer = TypeSerializer()
deserializer = TypeDeserializer()


def _decoded(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: deserializer.deserialize(value) for name, value in item.items()}


def _respond(status: int, content: BaseModel) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "body": content.model_dump_json(exclude_none=True),
    }


def _failed(status: int, message: str) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps({"message": message}),
    }


def get_video(video_id: str, user: str) -> dict[str, Any]:
    found = dynamodb.get_item(TableName=TABLE_NAME, Key={"videoId": {"S": video_id}}).get("Item")
    item = _decoded(found) if found else None
    if not item or (item["userId"] != user and (item["status"], item["visibility"]) != ("ready", "public")):
        return _failed(404, "The video does not exist.")
    return _respond(200, VideoModel.model_validate(item))


def create_video(event: Mapping[str, Any], user: str) -> dict[str, Any]:
    body = event.get("body") or ""
    try:
        new = NewVideoModel.model_validate_json(base64.b64decode(body) if event.get("isBase64Encoded") else body)
    except ValidationError as error:
        return _failed(400, str(error))
    now = int(time.time())
    video = VideoModel(
        **new.model_dump(),
        videoId=str(uuid.uuid4()),
        userId=user,
        createdAt=now,
        updatedAt=now,
        status="uploaded",
        version=1,
    )
    item = json.loads(video.model_dump_json(exclude_none=True), parse_float=Decimal)
    dynamodb.put_item(
        TableName=TABLE_NAME,
        Item={name: serializer.serialize(value) for name, value in item.items()},
        ConditionExpression="attribute_not_exists(videoId)",
    )
    return _respond(201, video)


def count_view(video_id: str) -> dict[str, Any]:
    try:
        response = dynamodb.update_item(
            TableName=TABLE_NAME,
            Key={"videoId": {"S": video_id}},
            UpdateExpression="ADD viewCount :one",
            ConditionExpression="attribute_exists(videoId)",
            ExpressionAttributeValues={":one": {"N": "1"}},
            ReturnValues="UPDATED_NEW",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            return _failed(404, "The video does not exist.")
        raise
    return _respond(200, ViewsModel(videoId=video_id, viewCount=int(response["Attributes"]["viewCount"]["N"])))


def list_videos(query: Mapping[str, str]) -> dict[str, Any]:
    start: dict[str, Any] = {}
    if "cursor" in query:
        start["ExclusiveStartKey"] = json.loads(base64.urlsafe_b64decode(query["cursor"]))
    response = dynamodb.query(
        TableName=TABLE_NAME,
        IndexName="by-owner",
        KeyConditionExpression="userId = :user",
        ExpressionAttributeValues={":user": {"S": query["userId"]}},
        ScanIndexForward=False,
        Limit=int(query.get("limit", 25)),
        **start,
    )
    last = response.get("LastEvaluatedKey")
    cursor = base64.urlsafe_b64encode(json.dumps(last).encode()).decode() if last else None
    items = [SummaryModel.model_validate(_decoded(item)) for item in response["Items"]]
    return _respond(200, PageModel(items=items, nextCursor=cursor))


def lambda_handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle a request. Entry point of the Lambda function."""
    user = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    path = event.get("pathParameters") or {}
    match event["routeKey"]:
        case "GET /v1/videos/{videoId}":
            return get_video(path["videoId"], user)
        case "POST /v1/videos":
            return create_video(event, user)
        case "POST /v1/videos/{videoId}/views":
            return count_view(path["videoId"])
        case "GET /v1/videos":
            return list_videos(event.get("queryStringParameters") or {})
    return _failed(404, "There is nothing here.")
