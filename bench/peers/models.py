"""Typical pydantic models of a video service."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool | None


class ThumbnailModel(BaseModel):
    url: str
    width: int | None = None
    height: int | None = None


class NewVideoModel(BaseModel):
    """Request body to create a video."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200)
    description: str | None = Field(default=None, max_length=5000)
    duration: int | None = Field(default=None, ge=0)
    fileSize: int | None = Field(default=None, ge=0)
    format: str | None = None
    resolution: str | None = None
    videoCodec: str | None = None
    audioCodec: str | None = None
    frameRate: float | None = Field(default=None, gt=0)
    resolutions: dict[str, str] = {}
    tags: list[str] | None = Field(default=None, max_length=30)
    category: str | None = None
    releaseYear: int | None = None
    language: str | None = None
    visibility: Literal["private", "public"] = "private"
    metadata: dict[str, Scalar] = Field(default={}, max_length=50)
    thumbnails: dict[str, ThumbnailModel] = Field(default={}, max_length=20)


class VideoModel(NewVideoModel):
    """Response with a video."""

    videoId: str
    userId: str
    createdAt: int
    updatedAt: int
    status: str
    viewCount: int = 0
    version: int


class SummaryModel(BaseModel):
    """Summary of a video in a list."""

    videoId: str
    userId: str
    createdAt: int
    title: str
    duration: int | None = None
    format: str | None = None
    category: str | None = None
    status: str
    visibility: str


class PageModel(BaseModel):
    """Page of a list, and the cursor of the next page."""

    items: list[SummaryModel]
    nextCursor: str | None = None


class ViewsModel(BaseModel):
    """Response to a counted view."""

    videoId: str
    viewCount: int
