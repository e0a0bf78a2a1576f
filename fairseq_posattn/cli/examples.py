"""Translate a few sentences of a data folder, and store their trees and attention weights as JSON.

posattn examples DATA --path checkpoint_best.pt --sentences 0 5 17 --out examples.json
"""

from __future__ import annotations

from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.requests import asked
from fairseq_posattn.lab.inspection.model import ExampleRequest


def main() -> None:
    request = asked(ExampleRequest, __doc__)
    from fairseq_posattn.lab.inspection.examples import examples

    write_json(request.out, examples(request), ensure_ascii=False, indent=1)


if __name__ == "__main__":
    run(main)
