"""What is said of a film that cannot be used."""


class UnreadableFilm(Exception):
    """The file is no film that can be read; `reason` is one sentence for the person who uploaded it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


EMPTY = "The file is empty."
NO_FILM = "The file is no film: its format is none of MP4, MOV, 3GP, MKV, WebM, AVI, FLV, MPEG, WMV, Ogg and MXF."
PICTURE = "The file is a picture and no film."
NO_VIDEO = "The file has no video in it, only sound or data."
TRUNCATED = "The film is cut short: its end is missing, perhaps because an upload or a recording was interrupted."
NO_INDEX = "The film's index (moov) is missing or cut short: an upload or a recording was perhaps interrupted."
ENCRYPTED = "The film is encrypted: upload it without copy protection."
DAMAGED = "The film is damaged: its container cannot be read."
UNSUPPORTED = "The film's video codec is not supported."
NO_FRAME = "None of the film's pictures can be decoded."
TOO_LARGE = "The film's pictures have more than 8192x4320 pixels."
TOO_MANY_FRAMES = "The film has more frames than can be read: more than 5 million, or far more than its length allows."
TOO_MANY_TRACKS = "The film has more than 100 tracks."
TOO_SLOW = "The film takes too long to read: it is perhaps damaged, or has far too many frames."
TOO_MUCH_MEMORY = "The film takes too much memory to read: it is perhaps damaged, or its index is far too large."
CRASHES = "The film is damaged: the program that reads films crashes on it."
