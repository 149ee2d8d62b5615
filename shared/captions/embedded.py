"""Conversion of a source file's subtitle tracks to captions."""

from collections.abc import Sequence

from shared.captions import cue_text, subrip, webvtt
from shared.captions.cues import LATEST, LONGEST_CUE, MAX_CUES, Cue, InvalidCaptions
from shared.captions.embedded_store import MAX_AT_ONCE, EmbeddedText, skipped_text
from shared.captions.languages import language_tag
from shared.captions.lines import clean
from shared.captions.store import MAX_STORED
from shared.core.attributes import Item
from shared.media import errors
from shared.media.results import SubtitleTrack

_SAME_LANGUAGE = "Another track of the file has the same language."
_NO_TEXT = "The track has no text for captions."
_TOO_MANY = f"The file has more than {MAX_AT_ONCE} languages."


def extract_texts(tracks: Sequence[SubtitleTrack]) -> tuple[list[EmbeddedText], list[Item]]:
    """Return the texts of the subtitle tracks, one per language, and a report of each skipped track.

    If several tracks have the same language, uses the first track with usable text. Tries forced tracks last.
    """
    texts: dict[str, EmbeddedText] = {}
    skipped: list[Item] = []
    for track in sorted(tracks, key=lambda each: (each.is_forced, each.number)):
        language = language_tag(track.language)
        reason = track.fault
        if reason is None and language in texts:
            reason = _SAME_LANGUAGE
        if reason is None and len(texts) == MAX_AT_ONCE:
            reason = _TOO_MANY
        if reason is None:
            cues = extract_cues(track)
            content = webvtt.write(cues).encode()
            if not cues:
                reason = _NO_TEXT
            elif len(content) > MAX_STORED or len(cues) > MAX_CUES:
                reason = errors.TOO_MUCH_TEXT
            else:
                texts[language] = EmbeddedText(track.number, language, track.codec, content, len(cues))
        if reason is not None:
            skipped.append(skipped_text(track.number, language, track.codec, reason))
    return [*texts.values()], skipped


def extract_cues(track: SubtitleTrack) -> list[Cue]:
    """Return the cues of a track, in order and without duplicates. Skips texts that exceed the limits of captions."""
    cues: dict[Cue, None] = {}
    for start, end, text_of_event in track.events:
        text, settings = _payload(track.codec, clean(text_of_event), start, end)
        if text and len(text) <= LONGEST_CUE and start < end <= LATEST:
            cues[Cue(start, end, text, settings=settings)] = None
    return [*cues]


def _payload(codec: str, raw: str, start: int, end: int) -> tuple[str, str | None]:
    if codec == "webvtt" and "-->" not in raw:
        try:
            checked = cue_text.check_payload("\n".join(line for line in raw.split("\n") if line.strip()), start, end, 1)
        except InvalidCaptions:
            pass  # the SubRip conversion below repairs or escapes invalid tags
        else:
            return checked, None
    return subrip.payload(raw)
