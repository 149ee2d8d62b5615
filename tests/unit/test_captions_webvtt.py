"""Tests that WebVTT files are parsed strictly by the specification, and written in one canonical form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.captions import webvtt
from shared.captions.cues import LATEST, LONGEST_CUE, MAX_CUES, Cue, InvalidCaptions, format_time, plain_text


def _file(*blocks: str) -> str:
    return "\n\n".join(("WEBVTT", *blocks)) + "\n"


def _cue(text: str) -> Cue:
    """Return the only cue of a file. It lasts from second 1 to 9, and its text begins on line 4."""
    (cue,) = webvtt.read(_file(f"00:01.000 --> 00:09.000\n{text}"))
    return cue


def _refusal(text: str) -> str:
    with pytest.raises(InvalidCaptions) as refused:
        webvtt.read(text)
    return str(refused.value)


def test_webvtt_file_is_parsed_to_cues_in_milliseconds() -> None:
    text = _file("intro\n00:01.500 --> 00:02.000 align:start\nHello\nworld", "01:00:00.000 --> 01:00:00.001\nBye")
    assert webvtt.read(text) == [
        Cue(1500, 2000, "Hello\nworld", "intro", "align:start"),
        Cue(3_600_000, 3_600_001, "Bye"),
    ]


def test_cues_are_written_in_canonical_form() -> None:
    cues = [Cue(1500, 2000, "Hello\nworld", "intro", "align:start"), Cue(3_600_000, 360_000_000, "Bye"), Cue(0, 1, "")]
    assert webvtt.write(cues) == (
        "WEBVTT\n\n"
        "intro\n00:00:01.500 --> 00:00:02.000 align:start\nHello\nworld\n\n"
        "01:00:00.000 --> 100:00:00.000\nBye\n\n"
        "00:00:00.000 --> 00:00:00.001\n"
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["no-mark", "mark"])
def test_any_line_end_is_accepted_and_a_byte_order_mark_is_ignored(end: str, mark: str) -> None:
    text = mark + _file("1\n00:01.000 --> 00:02.000\nHello\nworld").replace("\n", end)
    assert webvtt.read(text) == [Cue(1000, 2000, "Hello\nworld", "1")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("WEBVTT\n\n00:01.000 --> 00:02.000\nHello", id="no-line-end-at-the-end"),
        pytest.param("WEBVTT\n\n\n\n00:01.000 --> 00:02.000\nHello\n\n\n", id="more-blank-lines"),
        pytest.param("WEBVTT - A title\n\n00:01.000 --> 00:02.000\nHello\n", id="title"),
        pytest.param("WEBVTT\t\nLanguage: en\n\n00:01.000 --> 00:02.000\nHello\n", id="header"),
        pytest.param(_file("NOTE\ntwo\nlines", "NOTE", "00:01.000\t-->  00:02.000 \nHello", "NOTE end"), id="notes"),
        pytest.param(
            _file("STYLE\n::cue { color: red }", "REGION \nid:a", "00:01.000 --> 00:02.000\nHello"), id="style"
        ),
        pytest.param(_file("00:01.000 --> 00:02.000 region:a\nHello"), id="region"),
        pytest.param(_file(" \n00:01.000 --> 00:02.000\nHello"), id="line-that-looks-blank-before-the-times"),
    ],
)
def test_text_around_the_cues_is_dropped(text: str) -> None:
    assert webvtt.read(text) == [Cue(1000, 2000, "Hello")]


@pytest.mark.parametrize(
    ("settings", "normalised"),
    [
        ("size:50%  align:start\tline:-1", "line:-1 size:50% align:start"),
        ("vertical:rl line:0 position:10.5%,line-left size:100% align:end", None),
        ("line:84.66666666666667%,end position:100.0%,line-right align:right", None),
        ("region:a vertical:lr", "vertical:lr"),
        # Alignment keywords of drafts before 2015.
        (
            "position:50.00%,middle align:middle line:84.67%,middle",
            "line:84.67%,center position:50.00%,center align:center",
        ),
        ("position:0%,start", "position:0%,line-left"),
        ("position:100%,end", "position:100%,line-right"),
    ],
)
def test_cue_settings_are_normalised_to_one_order(settings: str, normalised: str | None) -> None:
    (cue,) = webvtt.read(_file(f"00:01.000 --> 00:02.000 {settings}\nHello"))
    assert cue.settings == (normalised or settings)


@pytest.mark.parametrize(
    "setting",
    ["vertical:up", "line:1.5", "line:101%", "line:--1", "line:1,left", "position:1", "position:1%,left", "size:100.1%",
     "size:%", "align:", "align:justify", "region:", "size:-1%", "line:\uff11"],
)  # fmt: skip
def test_setting_with_an_invalid_value_is_refused(setting: str) -> None:
    refusal = _refusal(_file("1\n00:01.000 --> 00:02.000 " + setting + "\nHello"))
    assert refusal == f'Line 4: The setting "{setting}" has an invalid value.'


@pytest.mark.parametrize(
    "text",
    [
        "Plain text, with > and quotes ' \"",
        "<i>slanted</i> <b>bold</b> <u>under</u> <c>span</c> <c.yellow.bg_blue>classes</c>",
        "<v Ada>All of the cue",
        "<v.loud Ada Lovelace>Two</v> <v Bob>voices</v>",
        "<v Ada><i>within</i>\nand over lines",
        "<lang pt-BR>Olá</lang>",
        "<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>",
        "<ruby>漢<rt>かん</ruby>",
        "one <00:02.000>two <00:00:03.000><c>three</c>",
        "&amp; &lt; &gt; &lrm; &rlm; &nbsp; &#x2068; &#39; &#146; &eacute; &NewLine;",
        "--&gt; and -> and -- >",
        "tab\tand trailing blanks  \n \n  leading ones",
        "<v -- >an arrow that is none</v>",
    ],
)
def test_valid_payloads_are_stored_unchanged(text: str) -> None:
    assert _cue(text).text == text


BEYOND_ASCII = [
    pytest.param("\u202b\u05e9\u05dc\u05d5\u05dd, world!\u202c \u2068a\u2069 \u200f", id="bidi"),
    pytest.param("\U0001f469\u200d\U0001f680 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f", id="emoji"),
    pytest.param("e\u0301 is not \u00e9; o\u0308 \u0928\u093f", id="combining"),
    pytest.param("line\u2028separator \u3000 \ufeff \u00a0", id="spaces"),
]


@pytest.mark.parametrize("text", BEYOND_ASCII)
def test_non_ascii_text_is_stored_byte_for_byte(text: str) -> None:
    cue = _cue(f"<i>{text}</i>")
    assert cue.text.encode() == f"<i>{text}</i>".encode()
    assert webvtt.read(webvtt.write([cue])) == [cue]


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("Tom & Jerry", "Tom &amp; Jerry"),
        ("AT&T &", "AT&amp;T &amp;"),
        ("&unknown; &ampersand &copy", "&amp;unknown; &amp;ampersand &amp;copy"),
        ("<c.white>as Netflix does</c.white>", "<c.white>as Netflix does</c>"),
        ("<v A&B <Ada>>both</v>", "<v A&amp;B &lt;Ada>>both</v>"),
        ("<v\tAda>tab</v >", "<v Ada>tab</v>"),
    ],
)
def test_text_that_browsers_tolerate_is_normalised(text: str, normalised: str) -> None:
    assert _cue(text).text == normalised


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("ok\n<script>alert(1)</script>", 'Line 5: "<script>" is not a WebVTT tag (c, i, b, u, ruby, rt, v, lang, or a time'),
        ("<I>loud</I>", 'Line 4: "<I>" is not a WebVTT tag (c, i, b, u, ruby, rt, v, lang, or a time)'),
        ('<font color="red">x</font>', 'Line 4: "<font color="red">" is not a WebVTT tag'),
        ("<img/src=x onerror=alert(1)>", 'Line 4: "<img/src=x onerror=alert(1)>" is not a WebVTT tag'),
        ("<c/onclick=x>", 'Line 4: "<c/onclick=x>" is not a WebVTT tag'),
        ("I <3 you", 'Line 4: "<3 you" is not a WebVTT tag'),
        ("<i\n>x</i>", 'Line 4: "<i >" is not a WebVTT tag'),
        ("a < b > c", 'Line 4: "< b >" is not a WebVTT tag'),
        ("x</p>", 'Line 4: "</p>" is not a WebVTT tag'),
        ("<c.>x</c>", 'Line 4: The tag "<c.>" has an invalid class'),
        ("<c.a&b>x</c>", 'Line 4: The tag "<c.a&b>" has an invalid class'),
        ("<i onclick=x>x</i>", 'Line 4: The tag "<i onclick=x>" must not have text or spaces after its name'),
        ("<c.a-- >x</c>", 'Line 4: The tag "<c.a-- >" must not have text or spaces after its name.'),
        ("<v>x</v>", 'Line 4: The tag "<v>" needs the name of the voice'),
        ("<lang >x</lang>", 'Line 4: The tag "<lang >" needs a language'),
        ("<lang e_n>x</lang>", 'Line 4: The tag "<lang e_n>" must name a BCP 47 language'),
        ("<rt>x</rt>", "Line 4: The tag <rt> is outside of <ruby>. Put it within <ruby>."),
        ("a\n<i>b\nc", 'Line 5: The tag "<i>" is not closed by </i>. Only a <v> around the whole cue may stay open.'),
        ("- <v Ada>b", 'Line 4: The tag "<v Ada>" is not closed by </v>'),
        ("<v Ada>a\n<v Bob>b", 'Line 5: The tag "<v Bob>" is not closed by </v>'),
        ("<i><b>x</i></b>", 'Line 4: The tag </i> closes no open tag. Close "<b>" first.'),
        ("x</i>", "Line 4: The tag </i> closes no open tag. Remove it."),
        ("<00:01.000>a", "Line 4: The time <00:01.000> must be after 00:00:01.000 (start of the cue) and before 00:00:0"),
        ("<00:09.000>a", "Line 4: The time <00:09.000> must be after 00:00:01.000 (start of the cue)"),
        ("<00:03.000>\n<00:03.000>", "Line 5: The time <00:03.000> must be after 00:00:03.000 (the previous time) and"),
        ("<0:02.000>a", 'Line 4: "<0:02.000>" is not a WebVTT tag'),
        ("a\nb --> c", 'Line 5: The text of a cue contains "-->". Write --&gt;, or put an empty line after the'),
        ("<v -->x</v>", 'Line 4: The text of a cue contains "-->"'),
        ("<!-- a -->", 'Line 4: The text of a cue contains "-->"'),
        ("a\n&#0;", "Line 5: The reference &#0; does not stand for a printable character."),
        ("<v &#1;>x</v>", "Line 4: The reference &#1; does not stand for a printable character"),
        ("&#x110000;", "Line 4: The reference &#x110000; does not stand for a printable character"),
        ("a\nb\0", "Line 5: The control character U+0000 is not allowed. Save the file as UTF-8, not UTF-16."),
        ("a\x1b[31m", "Line 4: The control character U+001B is not allowed. Remove it."),
        ("a\x85b", "Line 4: The control character U+0085 is not allowed"),
        ("a\ud800b", "Line 4: The control character U+D800 is not allowed"),
        ("x" * (LONGEST_CUE + 1), "Line 4: The cue must have at most 2,000 characters as WebVTT, not 2,001."),
        ("&" * 500, "Line 4: The cue must have at most 2,000 characters as WebVTT, not 2,500."),
    ],
)  # fmt: skip
def test_invalid_payload_is_refused_with_line_and_remedy(text: str, refusal: str) -> None:
    assert _refusal(_file(f"00:01.000 --> 00:09.000\n{text}")).startswith(refusal)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "Line 1: The header is missing. Begin the first line with WEBVTT, in capitals."),
        ("webvtt\n", "Line 1: The header is missing. Begin the first line"),
        ("\nWEBVTT\n", "Line 1: The header is missing. Begin the first line"),
        ("WEBVTTX\n", "Line 1: The header is missing. Begin the first line"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHi", "Line 1: The file is SubRip (SRT), without the header WEBVTT"),
        ("WEBVTT", "The file has no cues. Send at least one."),
        (_file("NOTE 00:01"), "The file has no cues. Send at least one."),
        ("WEBVTT\n00:01.000 --> 00:02.000\nHi", "Line 2: A blank line is missing after the header"),
        (_file("Kind: captions\nLanguage: en", "00:01.000 --> 00:02.000\nHi"), 'Line 3: "Kind: captions" begins no cue, because'),
        (_file("00:01.000 --> 00:02.000\na", "b"), 'Line 6: "b" begins no cue, because neither this line nor the next has times'),
        (_file("NOTE a\n00:01.000 --> 00:02.000"), 'Line 4: The block NOTE contains "-->". Put a blank line after the'),
        (_file("STYLE\n--> {}"), 'Line 4: The block STYLE contains "-->"'),
        (_file("00:01.000 --> 00:02.000\na", "STYLE\n::cue {}"), "Line 6: STYLE follows a cue. Move it before the first cue."),
        (_file("00:01.000 --> 00:02.000\na", "REGION\nid:a"), "Line 6: REGION follows a cue. Move it before the first cue."),
        (_file("00:01.000 --> 00:02.000\na", "WEBVTT\nX:1"), "Line 6: A second header (WEBVTT) begins here. Send one file"),
        (_file("00:01,000 --> 00:02,000\na"), 'Line 3: "00:01,000 --> 00:02,000" has no valid times. Write a dot before the milliseconds'),
        (_file("00:01.000-->00:02.000\na"), 'Line 3: "00:01.000-->00:02.000" has no valid times. Write 00:00:01.000 -->'),
        (_file("1\n0:00:01.000 --> 0:00:02.000"), 'Line 4: "0:00:01.000 --> 0:00:02.000" has no valid times'),
        (_file("00:60.000 --> 01:00.000"), 'Line 3: "00:60.000 --> 01:00.000" has no valid times'),
        (_file("00:01.00 --> 00:02.000"), 'Line 3: "00:01.00 --> 00:02.000" has no valid times'),
        (_file("00:01.000 --> 00:02.000,align:start"), 'Line 3: "00:01.000 --> 00:02.000,align:start" has no valid times'),
        (_file("--> " + "x" * 999), 'Line 3: "--> ' + "x" * 33 + '..." has no valid times'),
        (_file("1\n00:02.000 --> 00:01.000\na"), "Line 4: The end 00:00:01.000 is not after the start 00:00:02.000."),
        (_file("00:02.000 --> 00:02.000\na"), "Line 3: The end 00:00:02.000 is not after the start 00:00:02.000."),
        (_file("00:02.000 --> 100:00:00.001\na"), "Line 3: The end 100:00:00.001 is after 100:00:00.000"),
        (_file("00:02.000 --> 00:03.000\na", "1\n00:01.999 --> 00:03.000"), "Line 7: The start 00:00:01.999 is before 00:0"),
        (_file("x\n00:02.000 --> 00:03.000", "x\n00:02.000 --> 00:03.000"), 'Line 6: The cue on line 3 has the same identifier "x"'),
        (_file("00:01.000 --> 00:02.000 D:vertical"), 'Line 3: The setting "D:vertical" is unknown. Use vertical, line, position'),
        (_file("00:01.000 --> 00:02.000 align"), 'Line 3: The setting "align" is unknown. Use vertical'),
        (_file("00:01.000 --> 00:02.000 size:1% size:1%"), "Line 3: The setting size is repeated. Keep one."),
    ],
)  # fmt: skip
def test_invalid_webvtt_file_is_refused_with_line_and_remedy(text: str, refusal: str) -> None:
    assert _refusal(text).startswith(refusal)


def test_refusal_has_its_line_and_reason() -> None:
    with pytest.raises(InvalidCaptions) as refused:
        webvtt.read(_file("1\r\n00:02.000 --> 00:01.000\r\na"))
    assert refused.value.line == 4
    assert refused.value.reason == "The end 00:00:01.000 is not after the start 00:00:02.000."


def test_cues_may_overlap_and_end_at_the_latest_time() -> None:
    cues = [Cue(0, LATEST, "long"), Cue(0, 1, "short"), Cue(LATEST - 1, LATEST, "")]
    assert webvtt.read(webvtt.write(cues)) == cues


@pytest.mark.slow
def test_number_of_webvtt_cues_is_limited() -> None:
    most = [Cue(number, number + 1, "") for number in range(MAX_CUES)]
    assert len(webvtt.read(webvtt.write(most))) == MAX_CUES
    refusal = _refusal(webvtt.write([*most, Cue(MAX_CUES, LATEST, "")]))
    assert refusal == f"Line {3 + 2 * MAX_CUES}: The captions have more than 20,000 cues, the maximum."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<v Ada>Hello,\n  <i>world</i>", "Hello, world"),
        ("&lt;b&gt; Tom &amp; Jerry &eacute;&nbsp;&#x21;", "<b> Tom & Jerry é !"),
        ("&amp;lt;", "&lt;"),
        ("one<00:02.000><c> two</c>", "one two"),
        ("<ruby>漢<rt>かん</rt></ruby>", "漢かん"),
        (" \n\t", ""),
    ],
)
def test_plain_text_of_a_cue_has_no_markup(text: str, words: str) -> None:
    assert plain_text(_cue(text)) == words


@pytest.mark.parametrize(
    ("time", "text"), [(0, "00:00:00.000"), (3_723_004, "01:02:03.004"), (LATEST, "100:00:00.000")]
)
def test_times_are_written_with_hours(time: int, text: str) -> None:
    assert format_time(time) == text


WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="<>&"), max_size=20)
LINES = WORDS.filter(bool)
TIMES = st.tuples(st.integers(0, LATEST - 1), st.integers(1, 10_000)).map(
    lambda time: (time[0], min(sum(time), LATEST))
)
PAYLOADS = st.recursive(
    LINES | st.sampled_from(["&amp;", "&lt;", "&#x2068;"]),
    lambda inner: (
        st.builds("<{0}>{1}</{0}>".format, st.sampled_from("cibu"), inner)
        | st.builds("<v {}>{}</v>".format, LINES.filter(str.strip), inner)
        | st.builds("{}\n{}".format, inner, inner)
    ),
    max_leaves=8,
)
SETTINGS = st.none() | st.sampled_from(["line:0", "vertical:rl align:left", "position:10%,center size:35.5%"])


@st.composite
def _cues(draw: st.DrawFn) -> list[Cue]:
    times = sorted(draw(st.lists(TIMES, min_size=1, max_size=5)))
    payloads = st.just("") | PAYLOADS
    numbered = draw(st.booleans())
    return [
        Cue(start, end, draw(payloads), f"cue {number}" if numbered else None, draw(SETTINGS))
        for number, (start, end) in enumerate(times)
    ]


@pytest.mark.slow
@given(_cues())
def test_written_cues_are_read_back_unchanged(cues: list[Cue]) -> None:
    read = webvtt.read(webvtt.write(cues))
    assert webvtt.read(webvtt.write(read)) == read
    # The first round trip writes exactly one space before the name of a language or voice. All other text is unchanged.
    assert [cue._replace(text="") for cue in read] == [cue._replace(text="") for cue in cues]
    assert [plain_text(cue) for cue in read] == [plain_text(cue) for cue in cues]


PIECES = st.sampled_from(
    ["WEBVTT", "NOTE", "STYLE", "\n", "\n\n", "\r", "\ufeff", " ", "\t", "-->", " --> ", "--", ">", "<", "</", "&", ";", "#",
     "00:01.000", "00:00:02.000", "00:01.000 --> 00:02.000", "<00:01.500>", "<i>", "</i>", "<v ", "<c.a", "<v A>", "</v>",
     "<ruby>", "<rt>", "</ruby>", "</c.a>", "align:start", "line:0", "amp;", "x", "\U0001f680", "{\\an8}", "<font>", "1",
     "00:00:01,000 --> 00:00:02,000"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_refused_or_survives_a_round_trip(body: str) -> None:
    for text in (body, f"WEBVTT\n\n00:01.000 --> 00:02.000\n{body}", f"WEBVTT\n\n{body}"):
        try:
            cues = webvtt.read(text)
        except InvalidCaptions:
            continue
        assert webvtt.read(webvtt.write(cues)) == cues
