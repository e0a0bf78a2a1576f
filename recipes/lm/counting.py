"""Count words as the published perplexities did (Dagan 2019).

The authors' program cuts a sentence after 36 words, where an end of sentence is a word, too. It
reads all but the 36th, and predicts all but the first. So a sentence of n <= 35 words has n inputs
and n - 1 targets, and a longer one has 35 of both. The sum of the targets' losses is divided by the
number of inputs.
"""

WORDS_READ = 35  # the most words of a sentence that are read
AS_PUBLISHED = ("inputs_as_published", "targets_as_published")


def as_published(words: int, longest: int) -> dict[str, int]:
    """Return the inputs and targets of a sentence of so many words; at most `longest` are
    inputs."""
    counts = min(words, longest), min(words, longest + 1) - 1
    return dict(zip(AS_PUBLISHED, counts, strict=True))
