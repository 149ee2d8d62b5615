"""Reasons why a source file cannot be used, as sentences for the uploader."""


class UnreadableVideo(Exception):
    """The file is not a readable video; `reason` is one sentence for the uploader."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def is_final(self) -> bool:
        """Whether the file is the cause, so that a retry cannot succeed. Reading time also depends on storage and machine."""
        return self.reason != TOO_SLOW


EMPTY = "The file is empty."
NOT_A_VIDEO = "The file is not a film in a supported format: MP4, MOV, 3GP, MKV, WebM, AVI, FLV, MPEG, WMV, Ogg or MXF."
PICTURE = "The file is a picture, not a film."
NO_VIDEO = "The file has no video, only sound or data."
TRUNCATED = "The film is cut short: its end is missing, perhaps because an upload or a recording was interrupted."
NO_INDEX = "The film's index (moov) is missing or incomplete, perhaps because an upload or a recording was interrupted."
ENCRYPTED = "The film is encrypted: upload it without copy protection."
DAMAGED = "The film is damaged: its container cannot be read."
UNSUPPORTED = "The film's video codec is not supported."
NO_FRAME = "None of the film's pictures can be decoded."
TOO_LARGE = "The film's pictures have more than 8192x4320 pixels."
TOO_MANY_FRAMES = "The film has more frames than can be read: more than 5 million, or far more than its length allows."
TOO_MANY_TRACKS = "The film has more than 100 tracks."
TOO_SLOW = "The film takes too long to read: it may be damaged, or have far too many frames."
TOO_MUCH_MEMORY = "The film takes too much memory to read: it may be damaged, or its index may be far too large."
CRASHES = "The film is damaged: the program that reads films crashes on it."
TOO_LONG_TO_READ = "The film has more than 4 GB, all of which would have to be read for its subtitles."

PICTURES = "Its subtitles are pictures, not text."
NO_TEXT_FORMAT = "Its format is not supported: SubRip, SubStation Alpha, WebVTT and MPEG-4 timed text are."
NOT_UTF_8 = "Its text is not UTF-8."
TOO_MUCH_TEXT = "It has more text than captions may have."
