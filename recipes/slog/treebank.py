"""Write files of SLOG (Li et al. 2023) as a treebank with gold trees.

    python recipes/slog/treebank.py train.tsv.xz --out train.conllu
    python recipes/slog/treebank.py generalization_sets.zip --password WORD --out gen.conllu

A line of a file, or of a file in the zip, has a sentence, its variable-free form and its category,
which become the comments `text_lf` and `category` of the tree. The zip is not unpacked: its authors
keep it packed so that language models do not find it among their training texts.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.experiments.corpora import torn_archive_named
from trees import tree_of


def lines_of(path: Path, password: str) -> Iterator[tuple[str, str]]:
    """Yield each line of a file, or of the files in a zip, after its place."""
    if path.suffix != ".zip":
        yield from ((f"{path}:{k}", line) for k, line in enumerate(read_lines(path), start=1))
        return
    with torn_archive_named(str(path)), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            text = io.TextIOWrapper(archive.open(name, pwd=password.encode()), "utf-8")
            for k, line in enumerate(text, start=1):
                yield f"{path}/{name}:{k}", line.rstrip("\n")


def block(line: str) -> str:
    """Return the tree of a line as CoNLL-U."""
    sentence, form, category = line.split("\t")
    words = enumerate(tree_of(sentence, form), start=1)
    rows = [
        f"{k}\t{word}\t_\t_\t_\t_\t{parent}\t{label}\t_\t_" for k, (word, parent, label) in words
    ]
    comments = [f"# text = {sentence}", f"# text_lf = {form}", f"# category = {category}"]
    return "\n".join([*comments, *rows]) + "\n\n"


def main() -> None:
    """Write the treebank that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="+", type=Path, help="read these files of SLOG, one after the other"
    )
    parser.add_argument("--out", required=True, help="write the trees to this file")
    parser.add_argument(
        "--password", default="", help="open a zip with this password, which its README tells"
    )
    args = parser.parse_args()
    with written_whole(args.out) as file:
        for path in args.files:
            for where, line in lines_of(path, args.password):
                try:
                    file.write(block(line))
                except (InputError, ValueError, IndexError) as error:
                    raise InputError(
                        f"{where}: this is no sentence, form and category of SLOG ({error}); get "
                        "the file again"
                    ) from error


if __name__ == "__main__":
    command_line.run(main)
