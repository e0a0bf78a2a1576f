"""The outputs of fairseq-generate as a text to score: in order, whole, detokenised.

python -m fairseq_posattn.evaluation.texts DATA GEN.log [GEN.log ...] --out HYP takes all shards of
a run. How pieces become text is read from DATA/prepare.json; without it, --separator is undone,
and --detokenize LANG asks for Moses.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fairseq_posattn.command_line import run
from fairseq_posattn.files import InputError, read_lines, written_together
from fairseq_posattn.preparation import choices
from fairseq_posattn.segmenters import SPACE
from fairseq_posattn.trees.projection import SEPARATOR

FIELDS = {"H": 3, "S": 2}  # H-number, score, pieces; S-number, pieces


def outputs(logs: Sequence[str], kind: str = "H") -> list[str]:
    """The pieces of each sentence (H: translations, S: sources), by their numbers."""
    found: dict[int, tuple[str, str]] = {}
    for log in logs:
        for line, text in enumerate(read_lines(log), start=1):
            if text.startswith(f"{kind}-"):
                sentence, pieces = numbered(text, kind, f"{log}:{line}")
                check_once(kind, sentence, found, f"{log}:{line}")
                found[sentence] = f"{log}:{line}", pieces
    check_complete(kind, found, logs)
    return [found[sentence][1] for sentence in range(len(found))]


def numbered(line: str, kind: str, where: str) -> tuple[int, str]:
    name, *columns = line.split("\t", FIELDS[kind] - 1)
    if len(columns) != FIELDS[kind] - 1 or not name[2:].isdecimal():
        raise InputError(
            f"{where}: not a line of fairseq-generate: '{line[:40]}'; is the log broken off here?"
        )
    return int(name[2:]), columns[-1]


def check_once(kind: str, sentence: int, found: dict, where: str) -> None:
    if sentence in found:
        raise InputError(
            f"{where}: {kind}-{sentence} stands already in {found[sentence][0]}; give each shard "
            "once, of one run with --nbest 1 (fairseq-generate takes shards by "
            "--distributed-world-size and --distributed-rank; it passes over --num-shards)"
        )


def check_complete(kind: str, found: dict, logs: Sequence[str]) -> None:
    names = ", ".join(map(str, logs))
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
    texts = [(args.sources, outputs(args.logs, "S"))] if args.sources else []
    texts.append(
        (args.out, [decode(pieces) for pieces in outputs(args.logs)])
    )  # takes its name last
    write(texts)


def main() -> None:
    run(extract)


if __name__ == "__main__":
    main()
