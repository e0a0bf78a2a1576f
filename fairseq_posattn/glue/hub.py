"""The hub interface translates with trees: from_pretrained(...).translate(sentences, trees=...)."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.hub_utils import GeneratorHubInterface


class StructuredHubInterface(GeneratorHubInterface):
    """Translates as fairseq's hub interface does, with trees that the caller gives or that the
    task's tree provider finds."""

    def __init__(self, cfg, task, models):
        super().__init__(cfg, task, models)
        if self.bpe is None and hasattr(task, "new_sentences"):
            self.bpe = task.build_bpe(None)  # it segments text as the data were prepared
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

        `trees` holds the parents of the words of each sentence, counted from 1 with 0 for the root.
        Without it the task's provider finds the trees.
        """
        if isinstance(sentences, str):
            trees = None if trees is None else [trees]
            return self.sample([sentences], beam, verbose, trees, **kwargs)[0]
        segmented = self.segmented(sentences, trees)
        hypotheses = self.generate([self.binarize(s) for s in segmented], beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]

    def segmented(self, sentences: list[str], trees) -> list[str]:
        """Return the pieces of each sentence, and let the task expect their trees."""

        def encode(sentence: str) -> str:
            return self.apply_bpe(self.tokenize(sentence))

        if hasattr(self.task, "new_sentences"):
            return self.task.new_sentences(sentences, encode, trees)
        return [encode(sentence) for sentence in sentences]
