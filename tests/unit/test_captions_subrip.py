"""Tests that the parser reads SubRip files as players do, and converts them to WebVTT cues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.captions import subrip, webvtt
from shared.captions.cues import LONGEST_CUE, MAX_CUES, Cue, InvalidCaptions, plain_text

TIMES = "00:00:01,000 --> 00:00:02,000"


def _cue(text: str) -> Cue:
    (cue,) = subrip.read(f"1\n{TIMES}\n{text}\n")
    return cue


def test_subrip_file_is_parsed_to_cues_in_milliseconds() -> None:
    text = "1\n00:00:01,500 --> 00:00:02,000\nHello\nworld\n\n2\n01:00:00,000 --> 01:00:00,001\nBye\n"
    assert subrip.read(text) == [Cue(1500, 2000, "Hello\nworld"), Cue(3_600_000, 3_600_001, "Bye")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"1\n{TIMES}\nHello", id="no-line-end-at-the-end"),
        pytest.param(f"\ufeff1\r\n{TIMES}\r\nHello\r\n\r\n", id="mark-and-crlf"),
        pytest.param(f"1\r{TIMES}\rHello\r", id="cr"),
        pytest.param(f"\n\n007 \n {TIMES} \nHello\n \t\n\n", id="spaces-around"),
        pytest.param(f"0\n{TIMES}  X1:100 X2:600 Y1:050 Y2:100\nHello\n", id="coordinates"),
        pytest.param("99999\n00:00:01.000 --> 00:00:02.000\nHello\n", id="dots"),
        pytest.param("1\n0:0:1,000-->0:0:2,000\nHello\n", id="short-times"),
    ],
)
def test_subrip_variants_that_players_accept_are_parsed(text: str) -> None:
    assert subrip.read(text) == [Cue(1000, 2000, "Hello")]


def test_cues_are_sorted_by_their_start_and_numbers_are_dropped() -> None:
    text = "\n\n".join(
        f"{number}\n00:00:0{start},000 --> 00:00:09,000\n{words}"
        for number, start, words in [(2, 5, "b"), (2, 3, "a"), (1, 5, "c")]
    )
    assert [(cue.start, cue.text, cue.id) for cue in subrip.read(text)] == [
        (3000, "a", None),
        (5000, "b", None),
        (5000, "c", None),
    ]


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("<i>a</i> <b>b</b>\n<u>c</u>", "<i>a</i> <b>b</b>\n<u>c</u>"),
        ("<I>a</I > <B>b</b>", "<i>a</i> <b>b</b>"),
        ("<i>never closed\nat all", "<i>never closed\nat all</i>"),
        ("<i><b>crossed</i> over</b>", "<i><b>crossed</b></i><b> over</b>"),
        ("<i>twice<i> </i>open</i>", "<i>twice </i>open"),
        ("closed</b> too often</i>", "closed too often"),
        ('<font color="#ff0000" face="Arial">red</font> <FONT>x</FONT>', "red x"),
        ('<font color="red">\nred\n</font>', "red"),
        ("{\\i1}italic{\\i0} {\\pos(10,20)\\fad(1,2)}there", "italic there"),
        ("{\\an2}\n{not a code} {y:i}", "{not a code} {y:i}"),
        ("Tom & Jerry &amp; 1 < 2 > 0", "Tom &amp; Jerry &amp;amp; 1 &lt; 2 &gt; 0"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("<i onclick=x> <br/> <fontx> <v Ada>", "&lt;i onclick=x&gt; &lt;br/&gt; &lt;fontx&gt; &lt;v Ada&gt;"),
        ("<<i>i> <00:00:01.500>", "&lt;<i>i&gt; &lt;00:00:01.500&gt;</i>"),
        ("File --> Open", "File --&gt; Open"),
        ("<font", "&lt;font"),
        ("", ""),
        (
            "\u202bש\u202c \U0001f469\u200d\U0001f680 e\u0301\u2028",
            "\u202bש\u202c \U0001f469\u200d\U0001f680 e\u0301\u2028",
        ),
    ],
)
def test_subrip_text_is_converted_to_a_webvtt_payload(text: str, payload: str) -> None:
    cue = _cue(text)
    assert cue.text == payload
    assert webvtt.read(webvtt.write([cue])) == [cue]


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("{\\an8}", "line:0"),
        ("{\\fs20\\an7\\b1}", "line:0"),
        ("{\\AN9}", None),
        ("{\\an2}", None),
        ("{\\an81}", None),
        ("{an8}", None),
    ],
)
def test_position_code_of_the_upper_edge_is_converted_to_a_setting(code: str, settings: str | None) -> None:
    assert _cue(f"{code}Hello").settings == settings


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "The file has no cues. Send at least one."),
        (" \n\n", "The file has no cues. Send at least one."),
        (f"WEBVTT\n\n{TIMES}\nHi", "Line 1: The file is WebVTT, not SubRip (SRT). Send it as text/vtt."),
        ("[Script Info]\nTitle: x", "Line 1: The file is SubStation Alpha (ASS or SSA). Export it as SubRip (SRT) or WebVTT."),
        ('<?xml version="1.0"?>', "Line 1: The file is XML or HTML, such as TTML or SAMI. Export it as SubRip (SRT) or WebVTT."),
        ("{1}{25}Hi", "Line 1: The file may be MicroDVD. Export it as SubRip (SRT) or WebVTT."),
        (f"one\n{TIMES}\nHi", 'Line 1: "one" is not the number of a cue. Write its number, then its times on the next line'),
        (f"-1\n{TIMES}\nHi", 'Line 1: "-1" is not the number of a cue'),
        (f"\uff11\n{TIMES}\nHi", 'Line 1: "\uff11" is not the number of a cue'),
        (f"{TIMES}\nHi", f'Line 1: "{TIMES}" is not the number of a cue'),
        (f"1\n{TIMES}\nHi\n\nthere", 'Line 5: "there" is not the number of a cue'),
        (f"1\n{TIMES}\n\nHi", 'Line 4: "Hi" is not the number of a cue'),
        (f"1\n{TIMES}\nHi\n\n2", "Line 6: The cue has no times after its number. Write 00:00:01,000 --> 00:00:02,000."),
        (f"1\n{TIMES}\nHi\n2\n{TIMES}\nHi", "Line 5: The times of another cue follow the text. Put a blank line before its"),
        ("1\n00:00:01,0 --> 00:00:02,0\nHi", 'Line 2: "00:00:01,0 --> 00:00:02,0" has no valid times. Write 00:00:01,000'),
        ("1\n00:60:01,000 --> 00:60:02,000\nHi", 'Line 2: "00:60:01,000 --> 00:60:02,000" has no valid times'),
        ("1\n00:01,000 --> 00:02,000\nHi", 'Line 2: "00:01,000 --> 00:02,000" has no valid times'),
        ("1\n00:00:02,000 --> 00:00:01,000\nHi", "Line 2: The end 00:00:01.000 is not after the start 00:00:02.000."),
        ("1\n00:00:02,000 --> 00:00:02,000\nHi", "Line 2: The end 00:00:02.000 is not after the start 00:00:02.000."),
        ("1\n00:00:02,000 --> 100:00:00,001\nHi", "Line 2: The end 100:00:00.001 is after 100:00:00.000"),
        (f"1\n{TIMES}\nHi\x1a", "Line 3: The control character U+001A is not allowed. Remove it."),
        (f"1\n{TIMES}\n" + "x" * (LONGEST_CUE + 1), "Line 3: The cue must have at most 2,000 characters as WebVTT, not 2,001."),
        (f"1\n{TIMES}\n" + "<" * LONGEST_CUE, "Line 3: The cue must have at most 2,000 characters as WebVTT, not 8,000."),
    ],
)  # fmt: skip
def test_invalid_subrip_file_is_refused_with_line_and_remedy(text: str, refusal: str) -> None:
    with pytest.raises(InvalidCaptions) as refused:
        subrip.read(text)
    assert str(refused.value).startswith(refusal)


@pytest.mark.slow
def test_number_of_subrip_cues_is_limited() -> None:
    cue = f"1\n{TIMES}\n\n"
    assert len(subrip.read(cue * MAX_CUES)) == MAX_CUES
    with pytest.raises(InvalidCaptions, match="Line 60001: The captions have more than 20,000 cues, the maximum"):
        subrip.read(cue * (MAX_CUES + 1))


PIECES = st.sampled_from(
    ["<i>", "</i>", "<b>", "</b>", "<U>", "</u>", "<font a=b>", "</font>", "{\\an8}", "{", "\\", "}", "<", ">", "--", "-->", "&",
     "&lt;", "\n", " ", "x", "<script>", "\U0001f680"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join) | st.text())
def test_any_accepted_subrip_text_converts_to_valid_webvtt(text: str) -> None:
    try:
        cues = subrip.read(f"1\n{TIMES}\n{text}")
    except InvalidCaptions:
        return
    assert webvtt.read(webvtt.write(cues)) == cues


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="{}"), min_size=1, max_size=50))
def test_text_without_tags_is_unchanged(text: str) -> None:
    if not any(tag in text.lower() for tag in ("<i", "<b", "<u", "<font", "</")):
        assert plain_text(_cue(text)) == " ".join(text.split())
