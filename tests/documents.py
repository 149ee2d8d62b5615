"""Documents that several folders of tests send."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "userId": "user_789",
    "createdAt": 1717645200,
    "title": "Product Launch Demo",
    "duration": 354000,
    "resolutions": {
        "1080p": "s3://video-bucket/transcoded/a1b2c3d4/1080p.mp4",
        "720p": "s3://video-bucket/transcoded/a1b2c3d4/720p.m3u8",
    },
    "tags": ["product", "demo", "launch"],
}
"""A video document with all fields that an import can set."""
