"""The hub interface with trees: from_pretrained(...).translate(sentences, trees=...)."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.hub_utils import GeneratorHubInterface


class StructuredHubInterface(GeneratorHubInterface):
    """fairseq's interface; trees come from the task's provider, or are given beside the text."""

    def sample(
        self,
        sentences: list[str],
        beam: int = 1,
        verbose: bool = False,
        trees: Sequence[Sequence[int] | None] | None = None,
        **kwargs,
    ) -> list[str]:
        """trees: the parents of the words of each sentence, counted from 1 with 0 for the root."""
        if isinstance(sentences, str):
            trees = None if trees is None else [trees]
            return self.sample([sentences], beam, verbose, trees, **kwargs)[0]
        segmented = [self.apply_bpe(self.tokenize(sentence)) for sentence in sentences]
        if hasattr(self.task, "find_trees"):
            self.task.find_trees(segmented, trees)
        hypotheses = self.generate([self.binarize(s) for s in segmented], beam, verbose, **kwargs)
        return [self.decode(best[0]["tokens"]) for best in hypotheses]
