r"""Project word-level trees onto subword units ("pieces").

Each output line contains one item `parent:pieces` per word: the position of the word's parent, and
the number of its pieces. With --labels, the words' relations and parts of speech follow as two
tab-separated columns. Both commands below write work/train.en.trees, the file that posattn binarize
reads. Use the second command for sentencepiece, whose pieces are learnt from untokenised text:

    posattn project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en

    posattn project --words work/train.words --parents work/train.parents \
        --labels work/train.labels --pieces work/train.en --text train.txt \
        --sentencepiece work/model
"""

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.preparation.project import ProjectionRequest, project


def main() -> None:
    request = asked(ProjectionRequest, __doc__)
    project(request, request.out or f"{request.pieces}.trees")


if __name__ == "__main__":
    run(main)
