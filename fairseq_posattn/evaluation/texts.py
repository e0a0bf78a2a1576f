"""The outputs of fairseq-generate as a text to score: in order, whole, detokenised.

python -m fairseq_posattn.evaluation.texts DATA GEN.log [GEN.log ...] --out HYP takes all shards of
a run. How pieces become text is read from DATA/prepare.json; without it, --separator is undone,
and --detokenize LANG asks for Moses.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fairseq_posattn.command_line import run
from fairseq_posattn.evaluation.spacing import Text
from fairseq_posattn.files import InputError, read_lines, written_together
from fairseq_posattn.preparation import choices
from fairseq_posattn.segmenters import SPACE
from fairseq_posattn.trees.projection import SEPARATOR

NUMBER = "(0|[1-9][0-9]{0,14})"
LINES = {  # as fairseq-generate writes them: number, score (of translations), pieces
    "H": re.compile(rf"H-{NUMBER}\t-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)\t(.*)", re.DOTALL),
    "S": re.compile(rf"S-{NUMBER}\t(.*)", re.DOTALL),
}


def outputs(logs: Sequence[str], kind: str = "H") -> list[str]:
    """The pieces of each sentence (H: translations, S: sources), by their numbers."""
    return outputs_of(read_texts(logs), kind)


def read_texts(logs: Sequence[str]) -> list[Text]:
    return [Text(str(log), list(read_lines(log))) for log in logs]


def outputs_of(logs: Sequence[Text], kind: str = "H") -> list[str]:
    """Like `outputs`, of logs that are read already."""
    found: dict[int, tuple[str, str]] = {}
    for log in logs:
        for number, line in enumerate(log.lines, start=1):
            if line.startswith(f"{kind}-"):
                where = f"{log.name}:{number}"
                sentence, pieces = numbered(line, kind, where)
                check_once(kind, sentence, found, where)
                found[sentence] = where, pieces
    check_complete(kind, found, [log.name for log in logs])
    return [found[sentence][1] for sentence in range(len(found))]


def numbered(line: str, kind: str, where: str) -> tuple[int, str]:
    found = LINES[kind].fullmatch(line)
    if found is None:
        raise InputError(
            f"{where}: not a line of fairseq-generate: '{line[:40]}'; is the log broken off here?"
        )
    return int(found[1]), found[2]


def check_once(kind: str, sentence: int, found: dict, where: str) -> None:
    if sentence in found:
        raise InputError(
            f"{where}: {kind}-{sentence} stands already in {found[sentence][0]}; give each shard "
            "once, of one run with --nbest 1 (shards are made by --distributed-world-size, not by "
            "--num-shards)"
        )


def check_complete(kind: str, found: dict, logs: Sequence[str]) -> None:
    names = ", ".join(logs)
    if not found:
        raise InputError(f"{names}: no line {kind}-0; name logs of fairseq-generate")
    missing = next((k for k in range(len(found)) if k not in found), None)
    if missing is not None:
        raise InputError(
            f"{names}: {kind}-{missing} is missing; a shard is missing, or its log is broken off"
        )


def joined(pieces: str, separator: str) -> str:
    """The line that pieces came from."""
    if separator == SPACE:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")
    return (pieces + " ").replace(separator + " ", "").rstrip(" ")


def to_text(data: str, separator: str, language: str | None) -> Callable[[str], str]:
    """How pieces become a text that readers expect."""
    if not Path(data).is_dir():
        raise InputError(f"{data}: no such folder; name that of the binarised data")
    if choices.exists(data):
        from fairseq_posattn.new_text import PreparedText

        return PreparedText(choices.Preparation.load(data)).decode
    if language is None:
        return lambda pieces: joined(pieces, separator)
    detokenizer = choices.moses("MosesDetokenizer", language)
    return lambda pieces: detokenizer.detokenize(joined(pieces, separator).split(), unescape=False)


def write(texts: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Several files, all or none."""
    texts = list(texts)
    with written_together([path for path, _ in texts]) as files:
        for file, (_, lines) in zip(files, texts, strict=True):
            file.writelines(f"{line}\n" for line in lines)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Write the translations in logs of fairseq-generate as text, in order."
    )
    parser.add_argument("data", help="folder of the binarised data")
    parser.add_argument("logs", nargs="+", help="outputs of fairseq-generate: all shards of a run")
    parser.add_argument("--out", required=True, help="one translation a line")
    parser.add_argument("--sources", metavar="OUT", help="also write the pieces of the sources")
    parser.add_argument("--separator", default=SEPARATOR, help="mark of pieces: @@ or \u2581")
    parser.add_argument("--detokenize", metavar="LANG", help="by Moses, for this language")
    return parser.parse_args(arguments)


def extract() -> None:
    args = parse_arguments()
    if args.detokenize and choices.exists(args.data):
        raise InputError(
            f"{args.data}/{choices.FILE} says how to detokenise; leave out --detokenize"
        )
    decode = to_text(args.data, args.separator, args.detokenize)
    logs = read_texts(args.logs)
    texts = [(args.sources, outputs_of(logs, "S"))] if args.sources else []
    translations = [decode(pieces) for pieces in outputs_of(logs)]
    write([*texts, (args.out, translations)])  # it takes its name last


def main() -> None:
    run(extract)


if __name__ == "__main__":
    main()
