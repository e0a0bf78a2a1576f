"""Options of a recipe.toml that fairseq evaluates: generated values, of which some are code.

Harmless values pass and keep their value; code is refused, and leaves no file behind.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from random import Random

from .registry import add, calling

RECIPE = """\
# {folder}
title = "Small"
source = "en"
target = "de"
corpus = {{ valid = "dev", tests = ["test"] }}
sizes.base = {{ arch = "_tiny", updates = 10, batch_tokens = 100 }}
models = [{{ model = "sequence", size = "base" }}]
"""
NAMES = ("adam-betas", "adafactor-eps", "lamb-betas", "lr", "encoder_layers", "label-smoothing")
HARMLESS, HOSTILE = "# harmless", "# hostile"
ATOMS = ("-99", "1000000", "0.25", "3e-9", "True", "False", "None", "...", "1_000", "0x1F", "-0.0")
ATOMS += ("+3", "'it\\'s, #'", '"größe"', "'名前'", "''", "b'\\x00a'")
TEXTS = ("word", "/data/x.y/a-b", "two words", "a_v2.1", "0-2|5", "1/3", "/my data (a)/x@y.pt")
TEXTS += ("s3://a/b", "a:b", "./a", "")


def literal(random: Random, depth: int = 0) -> str:
    """Return a literal as somebody may write it."""
    if depth > 2 or random.random() < 0.6:
        return random.choice(ATOMS)
    parts = [literal(random, depth + 1) for _ in range(random.randint(1, 4))]
    inside = random.choice([",", ", ", " ,\t"]).join(parts)
    return random.choice(["[{}]", "({},)", "( {} )", "{{0: ({})}}"]).format(inside)


def identifier(name: str, random: Random) -> str:
    """Return a name as it is, or in letters that Python takes for the same."""
    if random.random() < 0.7:
        return name
    k = random.randrange(len(name))
    letter = name[k]
    return name[:k] + chr(0x1D41A + ord(letter) - 97) + name[k + 1 :] if letter >= "a" else name


def deed(victim: str, random: Random) -> str:
    """Return an expression that would make a file, or set something, and its value."""
    path, call = repr(victim), identifier(random.choice(["open", "exec", "eval"]), random)
    made = f"open({path}, 'w')"
    return random.choice(
        [
            made if call.startswith("open") else f"{call}({made!r})",
            f"__import__('pathlib').Path({path}).touch()",
            f"__import__('os').{identifier('mkdir', random)}({path})",
            f"(lambda f: f({path}, 'w'))(open)",
            f"[f({path}, 'w') for f in [open]][0]",
            f"[0 for os.environ.__class__.__getitem__ in [os.mkdir] if os.environ[{path}] is 0]",
            f"(f := open) and f({path}, 'w')",
            f'f"{{open({path}, chr(119))}}"',
            f"().__class__.__base__.__subclasses__()[0]({path})",
            f"[*map(open, [{path}], 'w')]",
            f"open(\\\n{path},\n'w')",
        ]
    )


def burden(random: Random) -> str:
    """Return an expression that would take all memory or time."""
    return random.choice(
        ["[0]*999999999999", "9**9**9", "'x'*9**9", "1<<9**9", "[[0]*9999]*9999*9999"]
        + ["-" * 9000 + "1", "a" + ".a" * 9000, "(" * 3000, "9" * 20_000, "~" * 5000 + "1"]
        + [f"{'[' * 150}{'0]*9999' + ']*9999' * 149}", "lambda: 0", "(yield)", "a@b", "[i:=1]"]
    )


def wrapped(text: str, random: Random) -> str:
    """Return an expression with another one in it, which Python would evaluate, too."""
    ways = ["[{}]", "(0.9, {})", "{{0: {}}}", "{{*[{}]}}", "({} if 1 else 0)", "not {}", "[{}][0]"]
    ways += ["1 < {}", "0 or {}", "[*[{}]]", "-{}", "{} @ 1", "({}).real", "[x for x in [{}]]"]
    ways += ["{}\t# 0.9", " {}", "\t{}", "[0.9,\n{}]", "f'{{{}}}'" if "'" not in text else "({})"]
    return random.choice(ways).format(text)


def another_value(data: bytes, random: Random) -> bytes:
    """Give options values, of which at most one is code."""
    head = data.decode().partition("[training]")[0]
    victim = str(Path(re.match(r"# (.+)", head)[1]) / "victim")
    count = random.randint(1, 3)
    values = [random.choice([literal(random), random.choice(TEXTS)]) for _ in range(count)]
    hostile = random.random() < 0.5
    if hostile:
        code = deed(victim, random) if random.random() < 0.7 else burden(random)
        for _ in range(random.randint(0, 3)):
            code = wrapped(code, random)
        values[random.randrange(len(values))] = code
    names = random.sample(NAMES, len(values))
    lines = [f"{name} = {toml(value, random)}" for name, value in zip(names, values, strict=True)]
    return "\n".join([head + "[training]", HOSTILE if hostile else HARMLESS, *lines, ""]).encode()


def toml(text: str, random: Random) -> str:
    """Return a text as TOML has it, alone or in a list."""
    shown = json.dumps(text, ensure_ascii=False)
    return random.choice([shown, shown, f'[{shown}, "0.1"]', f"[{shown}]"])


def build(folder: Path) -> None:
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder), "utf-8")


@add("options of recipe.toml", build, "recipe.toml", [another_value])
@calling
def evaluate(folder: Path) -> None:
    """Read the recipe, and what it chooses as fairseq would."""
    from fairseq_posattn.errors import InputError
    from fairseq_posattn.experiments.recipe import read_recipe
    from fairseq_posattn.fairseq_plugin.patches.refusals import read_value

    hostile = HOSTILE in (folder / "recipe.toml").read_text("utf-8")
    try:
        options = read_recipe(str(folder)).content.training
    except InputError:
        assert hostile, "a harmless value was refused"
        raise
    refused = False
    for value in options.values():
        for text in value if isinstance(value, list) else [value]:
            try:
                found = read_value(text)
            except InputError:
                refused = True
                continue
            assert repr(found) == repr(ast.literal_eval(text.strip()))
    if hostile:
        assert refused, "code has a value"
        raise InputError(f"{folder / 'recipe.toml'}: refused when it is evaluated")
