"""Damaged inputs of every kind, and the commands that read them.

Whatever the damage, a command ends in one of two ways: with exit code 0, because the damage does no
harm, or with exit code 1 (2 for options) and exactly one line `error: ...` of at most 300
characters that names the damaged file or record. It leaves nothing half-written, and it does not
hang. The last resort of command_line.run, which catches what nobody foresaw, counts as a failure
here.

`test_fuzz.py` tries a fixed seed. By hand, from the root of the project:

    python -m tests.fuzz --inputs 15000 --seed 7            a table: class, inputs, failures
    python -m tests.fuzz --only heads --seed 7 --input 12   one input again, which stays in a folder

How to add a class: in a module `classes_ANYTHING.py` of this package, call `add`:

    def build(folder):                      # valid files, built once
        (folder / "train.conllu").write_text(...)

    @add("CoNLL-U", build, "*.conllu", COLUMNS, "out.*")
    def command(folder):                    # what runs on each damaged copy of the folder
        return Command(program("extract"), [folder / "train.conllu", "--out", ...])

- damaged, `*.conllu` here: patterns, separated by spaces, of the files of which one is damaged each
  time, by one to three of the mutations (see mutations.py; a mutation of your own is a function
  (bytes, Random) -> bytes);
- outputs, `out.*` here: patterns of the files that a run with exit code 0 may add;
- left: patterns of the files that any run may add, such as parts to go on with;
- also_named: what the message may name in place of the damaged file;
- result: a function of the folder. Give it where a checksum protects the data: after exit code 0 it
  must return what it returned for the undamaged input;
- share: how many inputs the class gets of all, 1 by default; less for slow commands.

The command runs inside this process, through command_line.run. `program` gives the entry point of a
file with a `main`; any function without arguments will do, so a part of the package that has no
program of its own can be called, too. The valid files must pass: that is checked first.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the package `support`
