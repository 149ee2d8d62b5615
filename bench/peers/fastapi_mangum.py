"""Another implementation of the API (a peer), with FastAPI behind Mangum, and boto3's Table."""

import base64
import json
import os
import time
import uuid
from decimal import Decimal
from typing import Annotated, Any

import boto3
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from mangum import Mangum

from bench.peers.models import NewVideoModel, PageModel, VideoModel, ViewsModel

app = FastAPI(title="Videos")
table = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


def user(request: Request) -> str:
    """Return the caller's user id from the token that the gateway has verified."""
    event: dict[str, Any] = request.scope["aws.event"]
    return str(event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"])


User = Annotated[str, Depends(user)]


@app.get("/v1/videos/{video_id}", response_model_exclude_none=True)
def get_video(video_id: str, user: User) -> VideoModel:
    item = table.get_item(Key={"videoId": video_id}).get("Item")
    if not item or (item["userId"] != user and (item["status"], item["visibility"]) != ("ready", "public")):
        raise HTTPException(404, "The video does not exist.")
    return VideoModel.model_validate(item)


@app.post("/v1/videos", status_code=201, response_model_exclude_none=True)
def create_video(new: NewVideoModel, user: User) -> VideoModel:
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
    # boto3's Table accepts no floats.
    item = json.loads(video.model_dump_json(exclude_none=True), parse_float=Decimal)
    table.put_item(Item=item, ConditionExpression=Attr("videoId").not_exists())
    return video


@app.post("/v1/videos/{video_id}/views")
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
            raise HTTPException(404, "The video does not exist.") from error
        raise
    return ViewsModel.model_validate({"videoId": video_id, **response["Attributes"]})


@app.get("/v1/videos", response_model_exclude_none=True)
def list_videos(
    user_id: Annotated[str, Query(alias="userId")],
    limit: Annotated[int, Query(ge=1, le=100)] = 25,
    cursor: str | None = None,
) -> PageModel:
    start: dict[str, Any] = {}
    if cursor:
        start["ExclusiveStartKey"] = json.loads(base64.urlsafe_b64decode(cursor))
    response = table.query(
        IndexName="by-owner",
        KeyConditionExpression=Key("userId").eq(user_id),
        ScanIndexForward=False,
        Limit=limit,
        **start,
    )
    last = response.get("LastEvaluatedKey")
    more = base64.urlsafe_b64encode(json.dumps(last, default=int).encode()).decode() if last else None
    return PageModel.model_validate({"items": response["Items"], "nextCursor": more})


lambda_handler = Mangum(app, lifespan="off")
