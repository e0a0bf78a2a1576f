"""How the authors' program (Dagan 2019) reads a corpus, written from its description, step by step:
lists of words, nothing counted on the way."""

EOS, PAD = "<eos>", "<PAD>"
STEPS = 35


def pre_processed(lines, split_line):
    """WikiText-2 only: <eos> is appended to every line, then each sentence becomes a line."""
    sentences = []
    for line in lines:
        found = [list(words) for words in split_line(line.split())] if line.split() else [[]]
        found[-1].append(EOS)
        sentences += [" ".join(words) for words in found]
    return sentences


def words_of(sentences):
    """_read_words with ptb=True, as _data_to_token_ids calls it, for both corpora."""
    return [sentence.strip().split() + [EOS] for sentence in sentences]


def inputs_and_targets(sentences):
    """Each sentence padded or cut to 36 words: the first 35, and those that follow them."""
    pairs = []
    for words in words_of(sentences):
        row = (words + [PAD] * (STEPS + 1))[: STEPS + 1]
        pairs.append((row[:STEPS], row[1:]))
    return pairs


def count(pairs):
    """-> numbers of inputs and of targets that are no padding."""
    inputs = sum(word != PAD for words, _ in pairs for word in words)
    return inputs, sum(word != PAD for _, words in pairs for word in words)
