"""Count words as in the published perplexities (Dagan 2019).

The authors' program truncates sentences after 36 words, including the end of the sentence. It reads
all words except the 36th, and predicts all except the first. So a sentence of n <= 35 words has n
inputs and n - 1 targets, and a longer one has 35 of each. The sum of the targets' losses is divided
by the number of inputs.
"""

WORDS_READ = 35  # maximum number of input words of a sentence
AS_PUBLISHED = ("inputs_as_published", "targets_as_published")


def as_published(words: int, longest: int) -> dict[str, int]:
    """Return the numbers of inputs (at most `longest`) and targets of a sentence."""
    counts = min(words, longest), min(words, longest + 1) - 1
    return dict(zip(AS_PUBLISHED, counts, strict=True))
