"""Write the Japanese and the English column of ASPEC to two files.

python columns.py train-1.txt train-2.txt --out raw/train
"""

import argparse

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_together
from fairseq_posattn.io.files import read_lines

SEPARATOR = " ||| "


def split(files: list[str], out: str) -> None:
    """Write the last two columns of all files to OUT.ja and OUT.en."""
    with written_together([f"{out}.ja", f"{out}.en"]) as (japanese, english):
        for file in files:
            for number, line in enumerate(read_lines(file), start=1):
                columns = line.split(SEPARATOR)
                if len(columns) not in (4, 5):
                    raise InputError(
                        f"{file}:{number}: expected 4 or 5 columns separated by |||, found "
                        f"{len(columns)}; give a file of ASPEC-JE"
                    )
                japanese.write(columns[-2].strip() + "\n")
                english.write(columns[-1].strip() + "\n")


def main() -> None:
    """Split the files that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="read these files of ASPEC, one after the other")
    parser.add_argument("--out", required=True, help="write OUT.ja and OUT.en")
    options = parser.parse_args()
    split(options.files, options.out)


if __name__ == "__main__":
    command_line.run(main)
