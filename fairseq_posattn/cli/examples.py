"""Translate a few sentences of a data folder, and store their trees and attention weights as JSON.

posattn examples DATA --path checkpoint_best.pt --sentences 0 5 17 --out examples.json
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import write_json
from fairseq_posattn.files.requests import asked
from fairseq_posattn.inspection.model import ExampleRequest


def main() -> None:
    request = asked(ExampleRequest, __doc__)
    from fairseq_posattn.inspection.examples import examples

    write_json(request.out, examples(request), ensure_ascii=False, indent=1)


if __name__ == "__main__":
    run(main)
