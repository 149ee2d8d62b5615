"""Public URLs of the thumbnails that jobs create.

Items store S3 URIs, and documents show URLs. The public address can therefore change without a write to the items. The
URLs need no token, because players and `<img>` send none. Only callers who may see the video receive the URL. The path
of the URL contains a hash of the random upload id, so it cannot be guessed.
"""

from typing import Any, NamedTuple

from shared.core.errors import invalid_fields, pointer

THUMBNAILS = "thumbnails/"
"""Key prefix of the public objects in the media bucket."""


def is_stored(url: str) -> bool:
    """Return whether an address is an S3 URI, which browsers cannot open."""
    return url.startswith("s3://")


class Links(NamedTuple):
    """Translator between S3 URIs in the media bucket and public URLs."""

    bucket: str
    url: str

    def to_urls(self, document: dict[str, Any], *, is_own: bool = False) -> dict[str, Any]:
        """Return a document or summary with public URLs instead of the S3 URIs of public objects.

        Omits thumbnails at other S3 URIs, which clients supplied, unless `is_own` is true. Only the owner and admins
        may see S3 URIs.
        """
        result = dict(document)
        if "thumbnails" in result:
            pictures = {
                name: picture | {"url": self._url(picture["url"])} for name, picture in result["thumbnails"].items()
            }
            result["thumbnails"] = {
                name: picture for name, picture in pictures.items() if is_own or not is_stored(picture["url"])
            }
        if "poster" in result:
            poster = self._url(result.pop("poster"))
            if is_own or not is_stored(poster):
                result["poster"] = poster
        return result

    def to_uris(self, content: dict[str, Any], at: str = "") -> dict[str, Any]:
        """Return content that a client sent, with S3 URIs instead of public URLs.

        Clients can therefore send back a document that they read. Raises InvalidContent for a thumbnail at `http://`,
        except in local development, where public URLs begin with `http://`. `at` is the JSON Pointer of the content in
        the body.
        """
        pictures = content.get("thumbnails")
        if not pictures:
            return content
        insecure = [name for name, picture in pictures.items() if picture and self._is_insecure(picture.get("url", ""))]
        if insecure:
            faults = [
                {"pointer": at + pointer(("thumbnails", name, "url")), "detail": "must begin with https://"}
                for name in insecure
            ]
            raise invalid_fields(faults)
        back = {
            name: picture | {"url": self._uri(picture["url"])} if picture and "url" in picture else picture
            for name, picture in pictures.items()
        }
        return content | {"thumbnails": back}

    def _is_insecure(self, url: str) -> bool:
        return url.startswith("http://") and not self.url.startswith("http://")

    def _uri(self, url: str) -> str:
        shown = f"{self.url}/{THUMBNAILS}"
        return f"s3://{self.bucket}/{THUMBNAILS}{url.removeprefix(shown)}" if url.startswith(shown) else url

    def _url(self, uri: str) -> str:
        served = f"s3://{self.bucket}/{THUMBNAILS}"
        return f"{self.url}/{THUMBNAILS}{uri.removeprefix(served)}" if uri.startswith(served) else uri
