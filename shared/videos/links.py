"""Where clients find the pictures that jobs made.

Items keep S3 URIs, so that another address in front of the bucket changes no item; documents show URLs. Nobody needs
a token for such a URL, because players and `<img>` send none: it is known to those who may see the video, and its
path has a hash over the random id of the upload, which nobody can guess.
"""

from typing import Any, NamedTuple

from shared.core.errors import InvalidContent, pointer

THUMBNAILS = "thumbnails/"
"""The folder of the media bucket that is served."""


def is_stored(url: str) -> bool:
    """Whether the address is one of S3, and not a URL that a browser reads."""
    return url.startswith("s3://")


class Links(NamedTuple):
    """The bucket of pictures, and the URL that stands for it."""

    bucket: str
    url: str

    def shown(self, document: dict[str, Any], *, is_own: bool = False) -> dict[str, Any]:
        """A document or summary with URLs in place of the URIs of served objects.

        Pictures at other S3 URIs, which clients wrote, are left out unless the document is for the owner or an admin (`is_own`):
        only they see where a video is stored.
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

    def stored(self, content: dict[str, Any], at: str = "") -> dict[str, Any]:
        """What a client sends, with URIs in place of these URLs: so that what it has read it can send back.

        Raises InvalidContent for a picture at `http://`, unless those of the service are there too: on a laptop. `at` is
        the JSON Pointer of the content in the body.
        """
        pictures = content.get("thumbnails")
        if not pictures:
            return content
        insecure = [name for name, picture in pictures.items() if picture and self._is_insecure(picture.get("url", ""))]
        if insecure:
            faults = [
                {"pointer": at + pointer(("thumbnails", name, "url")), "detail": "must be https://"}
                for name in insecure
            ]
            raise InvalidContent(f"{len(faults)} of the pictures must be at an https:// address.", errors=faults)
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
