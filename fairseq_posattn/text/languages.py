"""Look up languages by name, and determine language-dependent properties.

A name is a code or an English name from `languages.txt`, optionally with a script or a region:
`zh`, `cmn`, `zh_CN`, `zho_Hant`, `chinese`. File names contain the name as specified by the user.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError

TABLE = Path(__file__).with_name("languages.txt")
# Languages without spaces between words, and sacrebleu's tokenisers for them.
UNSPACED = {"zh": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh", "ja": "ja-mecab"}
UNSPACED |= dict.fromkeys(("bo", "dz", "km", "lo", "my", "shn", "th"), "char")
TOKENIZERS = {**UNSPACED, "ko": "ko-mecab"}
CHINESE = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}  # by region
STANZA = {"se": "sme", "zh-hans": "zh-hans", "zh-hant": "zh-hant"}  # stanza's codes that differ
SUFFIX = re.compile(r"[a-z]{4}|[a-z]{2}|[0-9]{3}", re.I)  # a script, or a region
# Regional variants in lower case; other names of this form, such as `en-de`, are language pairs.
REGIONS = {f"zh-{region}" for region in CHINESE}
REGIONS |= {"pt-br", "es-ar", "fr-be", "nl-be", "fr-ca", "de-ch", "fr-ch", "it-ch", "nb-no"}
LINES = 1000  # the number of lines from which the script is determined
# Han, kana, Thai, Lao, Tibetan, Burmese and Khmer
WITHOUT_SPACES = (
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff\u0e00-\u0fff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"
    r"\u1780-\u17ff\u19e0-\u19ff]"
)
CHARACTER = re.compile(WITHOUT_SPACES)
TOGETHER = re.compile(f"{WITHOUT_SPACES}(?={WITHOUT_SPACES})")
APART = re.compile(rf"{WITHOUT_SPACES}\s+(?={WITHOUT_SPACES})")


class Language(NamedTuple):
    """A language; if it is unknown, `code` is the name specified by the user."""

    code: str
    name: str = ""
    script: str = ""

    @property
    def spaced(self) -> bool:
        return self.code not in UNSPACED or self.script == "latn"

    @property
    def tokenizer(self) -> str | None:
        """sacrebleu's tokeniser for the language, or None for the default tokeniser."""
        return None if self.code in UNSPACED and self.spaced else TOKENIZERS.get(self.code)

    @property
    def stanza(self) -> str:
        return STANZA.get(f"{self.code}-{self.script}") or STANZA.get(self.code, self.code)


def language(name: str) -> Language:
    """Return the language with this name; if it is unknown, its code is the name."""
    return find(name) or Language(name)


def find(name: str) -> Language | None:
    """Return the language with this name, or None if it is unknown."""
    whole = key(name)
    if whole in table():
        code, _, script = table()[whole][0].partition("-")
        return Language(code, table()[whole][1], script)
    first, *suffixes = re.split("[-_ ]", name)
    if key(first) not in table():
        return None
    code, english = table()[key(first)]
    if not all(is_suffix(suffix, code) for suffix in suffixes):
        return None
    small = [suffix.lower() for suffix in suffixes]
    scripts = [suffix for suffix in small if len(suffix) == 4]
    if code == "zh":
        scripts += [CHINESE[suffix] for suffix in small if suffix in CHINESE]
    return Language(code, english, scripts[0] if scripts else "")


def is_suffix(suffix: str, code: str) -> bool:
    """Return whether part of a name is a script or a region rather than a second language."""
    if not SUFFIX.fullmatch(suffix):
        return False
    region = f"{code}-{suffix}" in REGIONS or suffix == code or suffix not in table()
    return len(suffix) != 2 or region or not suffix.islower()


def known(option: str, name: str, remedy: str = "") -> Language:
    """Return the language specified by an option; raise an InputError if it is unknown."""
    if found := find(name):
        return found
    parts = [part for part in key(name).split("-") if part in table()]
    near = [*parts, *get_close_matches(key(name), table(), n=9, cutoff=0)]
    names = dict.fromkeys("{1} ({0})".format(*table()[word]) for word in near)
    raise InputError(
        f"{option} {name} is not a known language; the nearest names are "
        f"{', '.join(islice(names, 3))}{remedy}"
    )


def key(name: str) -> str:
    return re.sub("[_ ]", "-", name.lower())


@cache
def table() -> dict[str, tuple[str, str]]:
    """Map every code and name of a language to its main code and its main English name."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        words = [] if line.startswith("#") else line.split()
        english = [word.replace("_", " ") for word in words if word != word.lower()]
        found.update({key(word): (words[0], english[0]) for word in words})
    return found


def lacks_spaces(lines: Iterable[str]) -> bool:
    """Return whether a text is untokenised and in a script without spaces.

    At least a tenth of its characters must belong to such a script, and spaces between them must be
    rare. In tokenised Chinese, most of these characters are separated by spaces; in tokenised Thai,
    one in four.
    """
    all_characters = characters = together = apart = 0
    for line in islice(lines, LINES):
        all_characters += len("".join(line.split()))
        characters += len(CHARACTER.findall(line))
        together += len(TOGETHER.findall(line))
        apart += len(APART.findall(line))
    return bool(characters) and 10 * characters >= all_characters and 8 * apart <= together
