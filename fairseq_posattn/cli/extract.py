"""Extract words, parents and labels from CoNLL-U files, one sentence per line.

OUT.words contains the words, OUT.parents the positions of their parents, and OUT.labels their
dependency relations and parts of speech.

posattn extract train.conllu.xz --out work/train
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.preparation.treebanks import ExtractRequest, extract


def main() -> None:
    request = asked(ExtractRequest, __doc__)
    found = extract(request)
    done = f"{request.out}: {found.words} words of {found.sentences} sentences were written"
    print(visible(f"{done}; {found.without_tree} of these have no tree"))


if __name__ == "__main__":
    run(main)
