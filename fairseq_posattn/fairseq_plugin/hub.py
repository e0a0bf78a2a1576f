"""The hub interface of translation models that read trees.

Example:

    model = PosattnTransformerModel.from_pretrained("run", "averaged.pt", "data")
    model.translate(["Das ist gut ."], trees=[[3, 3, 0, 3]])
"""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.hub_utils import GeneratorHubInterface


class StructuredHubInterface(GeneratorHubInterface):
    """fairseq's hub interface; trees are passed by the caller or supplied by the tree provider."""

    def __init__(self, cfg, task, models):
        super().__init__(cfg, task, models)
        if self.bpe is None and hasattr(task, "new_sentences"):
            self.bpe = task.build_bpe(None)  # segments text like the training data
        else:
            task.own_bpe = True

    def sample(
        self,
        sentences: list[str],
        beam: int = 1,
        verbose: bool = False,
        trees: Sequence[Sequence[int] | None] | None = None,
        **kwargs,
    ) -> list[str]:
        """Return the translation of each sentence.

        trees: for each sentence, the index of each word's parent, starting from 1; 0 marks the
            root. If None, the task's tree provider supplies the trees.
        """
        if isinstance(sentences, str):
            trees = None if trees is None else [trees]
            return self.sample([sentences], beam, verbose, trees, **kwargs)[0]
        segmented = self.segmented(sentences, trees)
        hypotheses = self.generate([self.binarize(s) for s in segmented], beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]

    def segmented(self, sentences: list[str], trees) -> list[str]:
        """Return the pieces of each sentence, and queue the trees of the sentences in the task."""

        def encode(sentence: str) -> str:
            return self.apply_bpe(self.tokenize(sentence))

        if hasattr(self.task, "new_sentences"):
            return self.task.new_sentences(sentences, encode, trees)
        return [encode(sentence) for sentence in sentences]
