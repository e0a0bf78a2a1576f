"""Draw how mechanisms, or a layer of a trained model, change the attention in a sentence.

posattn show 'relative(max=4) + window(size=5)' --sentence 'the cat sleeps' --out picture.png
posattn show tree_relative --conllu dev.conllu --number 3 --out picture.html
posattn show --path checkpoint_best.pt --layer 2 --sentence 'The cat sleeps.' --out picture.html

The first row shows the weights without any mechanism, and the last row shows the resulting weights.
Each row in between shows one stage of a mechanism, in the order of computation in an encoder layer:
relations, biases, score changes, masks, weight changes, etc. Each column shows a head; identical
heads are drawn once. With a SPECIFICATION, word vectors and projections are random, so the picture
shows the mechanism alone. With --path, a trained encoder provides both, and a raw sentence is
preprocessed like the model's data.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.inspection.request import ShowRequest

if TYPE_CHECKING:
    from fairseq_posattn.inspection.picture import Picture
    from fairseq_posattn.trees.sentence import Sentence


def chosen_sentence(request: ShowRequest) -> tuple[str, Sentence]:
    """Return the text and the words of the chosen sentence, or of the built-in example."""
    from fairseq_posattn.inspection.sentence import BUILT_IN, sentence_of_file, sentence_of_text

    if request.number is not None and request.conllu is None:
        raise InputError(
            "--number selects a sentence in a CoNLL-U file; give the file with --conllu"
        )
    if request.conllu is not None:
        return sentence_of_file(request.conllu, request.number or 0)
    if request.sentence is not None:
        return request.sentence, sentence_of_text(request.sentence)
    print(f"built-in sentence, with its tree: {BUILT_IN}")
    return str(BUILT_IN), BUILT_IN


def chosen_picture(request: ShowRequest) -> Picture:
    text, sentence = chosen_sentence(request)
    if request.path is not None:
        from fairseq_posattn.inspection.trained import trained_picture  # it needs fairseq

        data, user_dir = request.data, request.user_dir
        return trained_picture(request.path, text, sentence, request.layer, data, user_dir)
    from fairseq_posattn.inspection.picture import make_picture
    from fairseq_posattn.testing.own_modules import imported_from

    if request.user_dir is not None:
        imported_from(request.user_dir)
    assert request.specification is not None  # checked by the request
    return make_picture(request.specification, sentence, request.layer, request.heads, request.seed)


def main() -> None:
    request = asked(ShowRequest, __doc__)
    from fairseq_posattn.inspection.figure import checked_kind, write

    kind = checked_kind(request.out)
    picture = chosen_picture(request)
    if not write(picture, request.out, kind):
        hint = (
            "the installed fonts lack some characters, which may be drawn as boxes; install a "
            "font that contains them (for East Asian text, Debian's fonts-noto-cjk), or write an "
            ".html file"
        )
        print(hint, file=sys.stderr)
    print(request.out)


if __name__ == "__main__":
    run(main)
