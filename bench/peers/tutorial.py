"""Another implementation of the API (a peer), in the style of tutorials. It uses Powertools' resolver, pydantic and
boto3's Table."""

import base64
import json
import os
import time
import uuid
from decimal import Decimal
from typing import Annotated, Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

from bench.peers.models import NewVideoModel, PageModel, VideoModel, ViewsModel

logger = Logger(service="videos")
app = APIGatewayHttpResolver(enable_validation=True)
table = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


def _user() -> str:
    claims: dict[str, str] = app.current_event.request_context.authorizer.jwt_claim
    return claims["sub"]


@app.get("/v1/videos/<video_id>")
def get_video(video_id: str) -> VideoModel:
    item = table.get_item(Key={"videoId": video_id}).get("Item")
    if not item or (item["userId"] != _user() and (item["status"], item["visibility"]) != ("ready", "public")):
        raise NotFoundError("The video does not exist.")
    return VideoModel.model_validate(item)


@app.post("/v1/videos")
def create_video(new: NewVideoModel) -> tuple[VideoModel, int]:
    now = int(time.time())
    video = VideoModel(
        **new.model_dump(),
        videoId=str(uuid.uuid4()),
        userId=_user(),
        createdAt=now,
        updatedAt=now,
        status="uploaded",
        version=1,
    )
    # boto3's Table accepts no floats.
    item = json.loads(video.model_dump_json(exclude_none=True), parse_float=Decimal)
    table.put_item(Item=item, ConditionExpression=Attr("videoId").not_exists())
    return video, 201


@app.post("/v1/videos/<video_id>/views")
def count_view(video_id: str) -> ViewsModel:
    try:
        response = table.update_item(
            Key={"videoId": video_id},
            UpdateExpression="ADD viewCount :one",
            ConditionExpression=Attr("videoId").exists(),
            ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            raise NotFoundError("The video does not exist.") from error
        raise
    return ViewsModel.model_validate({"videoId": video_id, **response["Attributes"]})


@app.get("/v1/videos")
def list_videos(
    user_id: Annotated[str, Query(alias="userId")],
    limit: Annotated[int, Query(ge=1, le=100)] = 25,
    cursor: str | None = None,
) -> PageModel:
    options: dict[str, Any] = {}
    if cursor:
        options["ExclusiveStartKey"] = json.loads(base64.urlsafe_b64decode(cursor))
    response = table.query(
        IndexName="by-owner",
        KeyConditionExpression=Key("userId").eq(user_id),
        ScanIndexForward=False,
        Limit=limit,
        **options,
    )
    last = response.get("LastEvaluatedKey")
    more = base64.urlsafe_b64encode(json.dumps(last, default=int).encode()).decode() if last else None
    return PageModel.model_validate({"items": response["Items"], "nextCursor": more})


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_HTTP)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Handle a request. Entry point of the Lambda function."""
    return app.resolve(event, context)
