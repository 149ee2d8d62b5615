"""Lambda function that only imports the libraries of the other implementations of the API (the peers). These are
boto3's client, pydantic with six models, and Powertools' Logger and Metrics."""

from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics

from bench.peers import models

logger = Logger(service="videos")
metrics = Metrics(namespace="Videos", service="videos")
dynamodb = boto3.client("dynamodb")
MODELS = (
    models.ThumbnailModel,
    models.NewVideoModel,
    models.VideoModel,
    models.SummaryModel,
    models.PageModel,
    models.ViewsModel,
)


def lambda_handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Return an empty response."""
    return {"statusCode": 200, "body": ""}
