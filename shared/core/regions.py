"""Codes of regions (ISO 3166) and languages (BCP 47), as used by the releases of a video."""


def _codes(table: str) -> frozenset[str]:
    return frozenset(table.split())


ALPHA_2 = _codes(
    """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ
    BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET
    FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU
    ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ
    LA LB LC LI LK LR LS LT LU LV LY
    MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ
    NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA
    RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ
    TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS
    YE YT ZA ZM ZW
    """
)
"""Two-letter codes of current countries (ISO 3166-1)."""

FORMER = _codes(
    """
    AIDJ ANHH BQAQ BUMM BYAA CSHH CSXX CTKI DDDE DYBJ FQHH FXFR GEHH HVBF JTUM MIUM NHVU NQAQ NTHH
    PCHH PUUM PZPA RHZW SKIN SUHH TPTL VDVN WKUM YDYE YUCS ZRCD
    """
)
"""Four-letter codes of former countries (ISO 3166-3), such as SUHH for the Soviet Union."""

CATALOGUE_REGIONS = _codes("XAS XAU XEU XKO XKV XNA XPI XSA XSI XWG XWW XYU")
"""Codes that film catalogues use for larger regions, such as XWW for the world and XEU for Europe.

ISO 3166-1 reserves codes that begin with X for private use.
"""

REGIONS = ALPHA_2 | FORMER | CATALOGUE_REGIONS
"""All region codes that a release may have."""


def region(text: str) -> str | None:
    """Return the code of a region in upper case, or `None` if the code is not in REGIONS."""
    code = text.upper() if text.isascii() else ""
    return code if code in REGIONS else None


def language(tag: str) -> str:
    """Return a BCP 47 tag in conventional case, such as `zh-Hant-TW`. Tags are case-insensitive (RFC 5646, 2.1.1)."""
    first, *subtags = tag.split("-")
    parts = [first.lower()]
    for part in subtags:
        if len(parts[-1]) == 1:  # a singleton begins an extension
            parts.append(part.lower())
        elif len(part) == 4 and part.isalpha():
            parts.append(part.title())
        elif len(part) == 2:
            parts.append(part.upper())
        else:
            parts.append(part.lower())
    return "-".join(parts)
