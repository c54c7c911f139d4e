"""Countries and sales regions by whatever name a form gives them: Germany, DE, DEU, Deutschland; EMEA, DACH, EU.

Pure look-ups. Codes and names of countries are ISO 3166's; the regions are those in common use in sales, by country.
"""

import unicodedata
from functools import cache, lru_cache

import phonenumbers
import pycountry

ALIASES = {
    "uk": "GB", "england": "GB", "scotland": "GB", "wales": "GB", "northern ireland": "GB", "great britain": "GB",
    "britain": "GB", "usa": "US", "u.s.": "US", "u.s.a.": "US", "united states of america": "US", "america": "US",
    "deutschland": "DE", "allemagne": "DE", "alemania": "DE", "osterreich": "AT", "autriche": "AT", "schweiz": "CH",
    "suisse": "CH", "svizzera": "CH", "espana": "ES", "espagne": "ES", "italia": "IT", "italie": "IT", "brasil": "BR",
    "nederland": "NL", "holland": "NL", "the netherlands": "NL", "belgie": "BE", "belgique": "BE", "belgien": "BE",
    "danmark": "DK", "norge": "NO", "sverige": "SE", "suomi": "FI", "polska": "PL", "czech republic": "CZ",
    "cesko": "CZ", "turkey": "TR", "russia": "RU", "south korea": "KR", "korea": "KR", "north korea": "KP",
    "iran": "IR", "syria": "SY", "vietnam": "VN", "laos": "LA", "moldova": "MD", "bolivia": "BO", "venezuela": "VE",
    "tanzania": "TZ", "taiwan": "TW", "uae": "AE", "ksa": "SA", "macedonia": "MK", "ivory coast": "CI",
    "cape verde": "CV", "swaziland": "SZ", "burma": "MM", "hong kong": "HK", "macau": "MO", "palestine": "PS",
    "eire": "IE", "republic of ireland": "IE", "hellas": "GR", "magyarorszag": "HU", "mexique": "MX",
    "etats-unis": "US", "royaume-uni": "GB", "frankreich": "FR", "vereinigte staaten": "US", "estados unidos": "US",
}  # fmt: skip

EU = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK"
MIDDLE_EAST = "AE BH IL IQ IR JO KW LB OM PS QA SA SY TR YE"
AFRICA = (
    "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA NE "
    "NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW"
)
EUROPE = f"{EU} AD AL AX BA BY CH FO GB GG GI GL IM IS JE LI MC MD ME MK NO RS RU SJ SM UA VA XK"
ASIA = "AF AM AZ BD BN BT CN GE HK ID IN IO JP KG KH KP KR KZ LA LK MM MN MO MV MY NP PH PK SG TH TJ TL TM TW UZ VN"
OCEANIA = "AS AU CC CK CX FJ FM GU HM KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS"
CARIBBEAN = "AG AI AW BB BL BQ BS CU CW DM DO GD GP HT JM KN KY LC MF MQ MS PR SX TC TT VC VG VI"
LATAM = f"AR BO BR BZ CL CO CR EC FK GF GT GY HN MX NI PA PE PY SR SV UY VE {CARIBBEAN}"

REGIONS: dict[str, frozenset[str]] = {
    name: frozenset(codes.split())
    for name, codes in {
        "EU": EU,
        "EEA": f"{EU} IS LI NO",
        "Europe": EUROPE,
        "DACH": "DE AT CH",
        "Benelux": "BE NL LU",
        "Nordics": "DK FI IS NO SE AX FO",
        "Baltics": "EE LT LV",
        "UK and Ireland": "GB IE GG IM JE",
        "Iberia": "ES PT AD GI",
        "CEE": "AL BA BG CZ EE HR HU LT LV ME MK PL RO RS SI SK XK",
        "Middle East": MIDDLE_EAST,
        "MENA": f"{MIDDLE_EAST} DZ EG LY MA TN",
        "GCC": "AE BH KW OM QA SA",
        "Africa": AFRICA,
        "EMEA": f"{EUROPE} {MIDDLE_EAST} {AFRICA}",
        "Asia": ASIA,
        "ASEAN": "BN ID KH LA MM MY PH SG TH VN",
        "ANZ": "AU NZ",
        "Oceania": OCEANIA,
        "APAC": f"{ASIA} {OCEANIA}",
        "North America": "US CA BM PM",
        "LATAM": LATAM,
        "Americas": f"US CA BM PM {LATAM}",
    }.items()
}


@lru_cache(maxsize=2_048)
def country_code(text: str) -> str:
    """The two-letter code of the country a form calls `text`, or nothing if it is none we know."""
    return _names().get(_fold(text), "")


@lru_cache(maxsize=2_048)
def phone_country(number: str) -> str:
    """The two-letter code of the country of a number in E.164 form, or nothing where several share its prefix."""
    try:
        return phonenumbers.region_code_for_number(phonenumbers.parse(number)) or ""
    except phonenumbers.NumberParseException:
        return ""


def country_name(code: str) -> str:
    """What a country with these two letters is called, or the letters themselves if it is none we know."""
    found = pycountry.countries.get(alpha_2=code)
    return getattr(found, "common_name", None) or found.name if found else code


@cache
def _names() -> dict[str, str]:
    found: dict[str, str] = {}
    for country in pycountry.countries:
        for key in ("name", "common_name", "official_name", "alpha_2", "alpha_3"):
            if name := getattr(country, key, None):
                found[_fold(name)] = country.alpha_2
    return {**found, "xk": "XK", "kosovo": "XK", **ALIASES}


def _fold(text: str) -> str:
    """Lower case, without accents and white space at the ends."""
    apart = unicodedata.normalize("NFKD", text.strip().casefold())
    return "".join(character for character in apart if not unicodedata.combining(character))
