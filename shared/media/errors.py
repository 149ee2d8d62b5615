"""Reasons why a source file cannot be used, as sentences for the uploader."""


class UnreadableVideo(Exception):
    """The file is not a readable video. `reason` is one sentence for the uploader."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def is_final(self) -> bool:
        """Whether every retry would also fail, because the file itself is the cause.

        `False` for TOO_SLOW, because the reading time also depends on the storage and the machine.
        """
        return self.reason != TOO_SLOW


EMPTY = "The file is empty."
NOT_A_VIDEO = (
    "The file is not a video in a supported format: MP4, MOV, 3GP, MKV, WebM, AVI, FLV, MPEG, WMV, Ogg or MXF."
)
PICTURE = "The file is a picture, not a video."
NO_VIDEO = "The file has no video, only sound or data."
TRUNCATED = "The end of the file is missing, perhaps because an upload or a recording was interrupted."
NO_INDEX = "The index (moov) is missing or incomplete, perhaps because an upload or a recording was interrupted."
ENCRYPTED = "The file is encrypted. Upload it without copy protection."
DAMAGED = "The file is damaged, so its container cannot be read."
UNSUPPORTED = "The video codec is not supported."
NO_FRAME = "No frame of the video can be decoded."
TOO_LARGE = "The frames have more than 8192x4320 pixels."
TOO_MANY_FRAMES = "The file has too many frames: more than 5 million, or far more than its duration allows."
TOO_MANY_TRACKS = "The file has more than 100 tracks."
TOO_SLOW = "The file takes too long to read. It may be damaged, or have too many frames."
TOO_MUCH_MEMORY = "The file takes too much memory to read. It may be damaged, or have too large an index."
CRASHES = "The file is damaged: the decoder crashes on it."
TOO_LONG_TO_READ = "The file has more than 4 GB, the limit for reading its subtitles."

PICTURES = "The subtitles are pictures, not text."
NO_TEXT_FORMAT = "The format is not supported. Use SubRip, SubStation Alpha, WebVTT or MPEG-4 timed text."
NOT_UTF_8 = "The text is not UTF-8."
TOO_MUCH_TEXT = "The text exceeds the size limit of captions."
