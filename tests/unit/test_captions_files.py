"""Caption files found in practice: the parsers accept each file, or refuse it with a helpful message.

The work is linear in the size of the file.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from shared.captions import webvtt
from shared.captions.cues import LATEST, LONGEST_CUE, MAX_BYTES, Cue, InvalidCaptions, format_time, plain_text
from shared.captions.parser import Kind, parse_captions

YOUTUBE = """WEBVTT
Kind: captions
Language: en

00:00:00.160 --> 00:00:02.389 align:start position:0%
\x20
so<00:00:00.480><c> today</c><00:00:00.880><c> we</c><00:00:01.120><c.colorE5E5E5> look</c>

00:00:02.389 --> 00:00:02.399 align:start position:0%
so today we look
\x20

00:00:02.399 --> 00:00:04.000 align:start position:0%
so today we look
at<00:00:02.720><c> cats</c>
"""
FFMPEG = "WEBVTT\n\n00:01.000 --> 00:02.500\nAn <i>ordinary</i> line\n\n01:00:03.000 --> 01:00:04.000\nand another\n\n"
NETFLIX = """WEBVTT

NOTE A streaming service
NOTE Profile: webvtt-lssdh-ios8

NOTE SegmentIndex
NOTE Segment=613.988@4153 110
NOTE /SegmentIndex

1
00:00:16.520 --> 00:00:19.440 position:50.00%,middle align:middle size:80.00% line:84.67%\x20
<c.white><c.mono_sans>&lrm;[rain falls]</c.mono_sans></c.white>

2
00:00:20.000 --> 00:00:21.000 position:50.00%,middle align:middle size:80.00% line:79.33%\x20
<c.white><c.mono_sans>&lrm;- Who's there?
&lrm;- Me.</c.mono_sans></c.white>
"""
BROADCASTER = """WEBVTT

STYLE
::cue(.cyan) { color: cyan; }
::cue(.yellow) { background: rgba(0, 0, 0, 0.8); }

REGION
id:bottom width:80% lines:2
regionanchor:0%,100% viewportanchor:10%,90% scroll:up

c1
00:00:05.000 --> 00:00:07.000 region:bottom line:85%,end
<c.cyan>Good evening.</c>
<c.yellow>Here is the news.</c>
"""
HLS = """WEBVTT
X-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000

00:00:01.000 --> 00:00:02.000
From a segment
"""
MEETING = """WEBVTT

3f2504e0-4f89-41d3-9a0c-0305e82c3301/12-0
00:00:03.120 --> 00:00:05.920
<v Ada Lovelace>Shall we begin?
Everybody is here.</v>

3f2504e0-4f89-41d3-9a0c-0305e82c3301/13-0
00:00:06.000 --> 00:00:07.000
<v Bob O'Neill>Yes.</v>
"""
AEGISUB = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<i>At the top</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n<b>bold</b> and plain\r\n\r\n"
)
OLD_RIP = (
    "2\r\n00:00:05,000 --> 00:00:06,000  X1:100 X2:600 Y1:050 Y2:100 \r\n<font color=\"#ffff00\">Late & yellow</font> \r\n \r\n"
    "1\r\n00:00:01,000 --> 00:00:02,000 \r\n<I>Early, unclosed\r\n\r\n\r\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        pytest.param(
            YOUTUBE, "vtt", ["so today we look", "so today we look", "so today we look at cats"], id="youtube"
        ),
        pytest.param(FFMPEG, "vtt", ["An ordinary line", "and another"], id="ffmpeg"),
        pytest.param(NETFLIX, "vtt", ["\u200e[rain falls]", "\u200e- Who's there? \u200e- Me."], id="netflix"),
        pytest.param(BROADCASTER, "vtt", ["Good evening. Here is the news."], id="broadcaster"),
        pytest.param(HLS, "vtt", ["From a segment"], id="hls"),
        pytest.param(MEETING, "vtt", ["Shall we begin? Everybody is here.", "Yes."], id="meeting"),
        pytest.param(AEGISUB, "srt", ["At the top", "bold and plain"], id="aegisub"),
        pytest.param(OLD_RIP, "srt", ["Early, unclosed", "Late & yellow"], id="old-rip"),
    ],
)
def test_real_caption_files_are_accepted(text: str, kind: Kind, words: list[str]) -> None:
    cues = parse_captions(text.encode(), kind)
    assert [plain_text(cue) for cue in cues] == words
    assert parse_captions(webvtt.write(cues).encode(), "vtt") == cues


def test_netflix_file_keeps_positions_and_classes() -> None:
    first, second = parse_captions(NETFLIX.encode(), "vtt")
    assert first == Cue(
        16_520,
        19_440,
        "<c.white><c.mono_sans>&lrm;[rain falls]</c></c>",
        "1",
        "line:84.67% position:50.00%,center size:80.00% align:center",
    )
    assert second.text.endswith("&lrm;- Me.</c></c>")


def test_automatic_captions_keep_the_times_of_words() -> None:
    first, *_ = parse_captions(YOUTUBE.encode(), "vtt")
    assert first.text.startswith(" \nso<00:00:00.480><c> today</c>")
    assert first.settings == "position:0% align:start"


SRT = "1\n00:00:01,000 --> 00:00:02,000\nÀ bientôt\n"
VTT = "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nÀ bientôt\n"


@pytest.mark.parametrize(
    ("content", "kind", "refusal"),
    [
        pytest.param(SRT.encode("cp1252"), "srt", "Line 3: The byte 0xC0, number 33 of the file, is not UTF-8. Save "
                     "the file as UTF-8.", id="windows-1252"),
        pytest.param(SRT.replace("\n", "\r\n").encode("latin-1"), "srt", "Line 3: The byte 0xC0, number 35", id="latin-1"),
        pytest.param(SRT.replace("\n", "\r").encode("latin-1"), "srt", "Line 3: The byte 0xC0, number 33", id="old-mac"),
        pytest.param(VTT.encode("utf-16"), "vtt", "Line 1: The text is UTF-16. Save it as UTF-8.", id="utf-16"),
        pytest.param(SRT.encode("utf-16-be")[:40], "srt", "Line 1: The control character U+0000 is not allowed. Save the file as "
                     "UTF-8, not UTF-16.", id="utf-16-without-mark"),
        pytest.param(b"\xed\xa0\x80", "vtt", "Line 1: The byte 0xED, number 1 of the file, is not UTF-8", id="surrogate"),
        pytest.param(SRT.encode(), "vtt", "Line 1: The file is SubRip (SRT), without the header WEBVTT and with commas in "
                     "times. Send it as application/x-subrip.", id="srt-as-vtt"),
        pytest.param(VTT.encode(), "srt", "Line 1: The file is WebVTT, not SubRip (SRT). Send it as text/vtt.", id="vtt-as-srt"),
        pytest.param(VTT.replace("VTT\n", "VTT\n\nKind: captions\n").encode(), "vtt", 'Line 3: "Kind: captions" begins no cue, '
                     "because neither this line nor the next has times. Remove blank lines within cues and the header; begin "
                     "comments with NOTE.", id="blank-line-within-the-header"),
        pytest.param((HLS + "\n" + HLS).encode(), "vtt", "Line 7: A second header (WEBVTT) begins here. Send one file, not "
                     "several joined.", id="segments-joined"),
        pytest.param((VTT + " \n00:00:03.000 --> 00:00:04.000\nHi").encode(), "vtt", 'Line 6: The text of a cue contains "-->". '
                     "Write --&gt;, or put an empty line after the previous cue.",
                     id="blank-line-with-spaces"),
        pytest.param(b"", "vtt", "Line 1: The header is missing. Begin the first line with WEBVTT, in capitals.",
                     id="empty-vtt"),
        pytest.param(b"", "srt", "The file has no cues. Send at least one.", id="empty-srt"),
        pytest.param(b" " * (MAX_BYTES + 1), "srt", "The captions must have at most 1,000,000 bytes, not 1,000,001.", id="too-long"),
    ],
)  # fmt: skip
def test_refused_caption_files_get_a_remedy(content: bytes, kind: Kind, refusal: str) -> None:
    with pytest.raises(InvalidCaptions) as refused:
        parse_captions(content, kind)
    assert str(refused.value).startswith(refusal)


CUE = {
    "vtt": "00:00:01.000 --> 00:00:02.000\n",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\n",
}
PARTS = [
    *(
        "<",
        ">",
        "&",
        "\n",
        "\r",
        "-->",
        "-->\n",
        " ",
        "\t",
        "x",
        "{\\",
        "{",
        "<i>",
        "</i>",
        "<font ",
        "<c.",
        "<v ",
        "&#",
        "&a",
    ),
    *("00:", "0", "NOTE\n\n", "STYLE\n\n", "a:", "line:0 ", "<00:01.", "1\n", "\u0301", "\U0001f680"),
]
SLOTS: dict[str, tuple[Kind, str]] = {
    "alone": ("vtt", ""),
    "in the header": ("vtt", "WEBVTT "),
    "after the header": ("vtt", "WEBVTT\n\n"),
    "in a comment": ("vtt", "WEBVTT\n\nNOTE "),
    "in settings": ("vtt", f"WEBVTT\n\n{CUE['vtt'][:-1]} "),
    "in a cue": ("vtt", f"WEBVTT\n\n{CUE['vtt']}"),
    "in a tag": ("vtt", f"WEBVTT\n\n{CUE['vtt']}<v "),
    "alone in SubRip": ("srt", ""),
    "after times of SubRip": ("srt", CUE["srt"][:-1] + " "),
    "in a cue of SubRip": ("srt", CUE["srt"]),
}


LENGTH = 200_000
"""Number of characters for which quadratic work would not finish."""


def _outcome(content: bytes, kind: Kind) -> list[Cue] | InvalidCaptions:
    try:
        return parse_captions(content, kind)
    except InvalidCaptions as error:
        return error


@pytest.mark.parametrize("slot", SLOTS)
def test_fragment_repeated_to_200_kb_is_accepted_or_refused_with_a_short_message(slot: str) -> None:
    kind, begin = SLOTS[slot]
    for part in PARTS:
        outcome = _outcome((begin + part * (LENGTH // len(part))).encode(), kind)
        assert isinstance(outcome, list) or len(str(outcome)) < 300


def _steps(work: Callable[[], object]) -> int:
    """Return the number of executed lines of the captions package.

    Work inside a regular expression is not counted. A quadratic pattern would not finish on `LENGTH` characters.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "captions" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("slot", SLOTS)
def test_twice_the_text_takes_at_most_twice_the_steps(slot: str) -> None:
    kind, begin = SLOTS[slot]

    def steps(part: str, count: int) -> int:
        return _steps(lambda: _outcome((begin + part * count).encode(), kind))

    for part in PARTS:
        assert steps(part, 1000) <= 2 * steps(part, 500) + 20, part


@pytest.mark.parametrize("kind", ["vtt", "srt"])
def test_twice_the_cues_take_at_most_twice_the_steps(kind: Kind) -> None:
    header = {"vtt": "WEBVTT\n\n", "srt": ""}[kind]
    text = CUE[kind] + "<i>Tom & Jerry</i>\n<b>again</b>\n\n"

    def steps(count: int) -> int:
        return _steps(lambda: parse_captions((header + text * count).encode(), kind))

    once, twice = steps(100), steps(200)
    assert once < twice <= 2 * once


def test_fragment_repeated_to_200_kb_is_converted_to_plain_text() -> None:
    for part in PARTS:
        assert len(plain_text(Cue(0, 1, part * (LENGTH // len(part))))) <= LENGTH


def test_many_cues_of_the_maximum_length_are_accepted() -> None:
    count = MAX_BYTES // (LONGEST_CUE + 50)
    cues = [Cue(number, LATEST, "é" * (LONGEST_CUE // 2), str(number)) for number in range(count)]
    assert parse_captions(webvtt.write(cues).encode(), "vtt") == cues
    assert format_time(LATEST) in webvtt.write(cues)
