"""Each probing task on a hand-made treebank: its rule, read slowly from the files that were made.

The treebank is written by templates with a fixed seed. Any two of its sentences of the same length
differ in at least three words, and no sentence has the words of another, so that each changed
sentence of a task tells which one it was made from.
"""

import json
import lzma
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest

from support.probes import FILES as ALL_FILES
from support.probes import probe_tasks as called

ROOT = "root"
FILES = {name: file for name, file in ALL_FILES.items() if name != "TopConst"}
UNCHANGED = ("SentLen", "WC", "TreeDepth", "TopRelations", "Tense", "SubjNum", "ObjNum")
SPLITS = ("tr", "va", "te")
RANK, TARGETS = 30, 12  # of WC
ODD = (8, 300)  # counts of the words that SOMO replaces
OPTIONS = ["--min-sentences", 24, "--content-rank", RANK, "--content-words", TARGETS]
OPTIONS += ["--odd-counts", *ODD]
SMALL = [*OPTIONS, "--sizes", 40, 8, 8, "--form-counts", 2, 5, "--min-sentences", 8]
SMALL += ["--task", "SentLen", "BShift", "Tense", "SOMO", "CoordInv", "ObjNum"]
END = "</s>"

# ---------------------------------------------------------------- the command and what it writes


def made(folder, *arguments):
    code, said = called(*arguments, "--out", folder)
    assert code == 0, said
    return folder


def lines_of(folder, task):
    """The lines of a task as (split, label, words), read without the package."""
    text = (folder / f"{FILES[task]}.txt").read_text(encoding="utf-8")
    assert text.endswith("\n")
    rows = [line.split("\t") for line in text[:-1].split("\n")]
    assert all(len(row) == 3 for row in rows)
    return [(split, label, sentence.split(" ")) for split, label, sentence in rows]


def trees_of(folder, task):
    """The written trees of a task: each has its tokens and the columns of its words."""
    text = lzma.decompress((folder / "trees" / f"{FILES[task]}.conllu.xz").read_bytes()).decode()
    found = []
    for block in text.strip("\n").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line[0] != "#"]
        words = [row for row in rows if "-" not in row[0]]
        tokens, hidden = [], set()
        for row in rows:
            if "-" in row[0]:
                first, last = map(int, row[0].split("-"))
                hidden |= set(range(first, last + 1))
                tokens.append(row[1])
            elif int(row[0]) not in hidden:
                tokens.append(row[1])
        found.append((tokens, words))
    return found


def features(word):
    return dict(pair.split("=") for pair in word[5].split("|")) if word[5] != "_" else {}


def root_of(words):
    (root,) = [word for word in words if word[6] == "0"]
    return root


def children(words, parent):
    return [word for word in words if word[6] == parent[0]]


def relation(word):
    return word[7].split(":")[0]


# ----------------------------------------------------------------------------------- the treebank

NOUNS, VERBS, ADJECTIVES, ADVERBS, NAMES, PREPOSITIONS, DETERMINERS = map(
    str.split,
    (
        "dog cat bird farmer doctor teacher river garden window table letter picture bottle engine "
        "ticket market village bridge castle painter sailor hunter tower kettle basket candle "
        "hammer ladder mirror pillow",
        "walk call paint open watch follow answer visit help clean pull push touch carry repair "
        "admire ignore remember discover collect",
        "old small green quiet heavy bright famous broken wooden young lazy empty",
        "often slowly again today quietly gladly rarely there yesterday soon outside",
        "Mary London Peter Anna Berlin Oslo",
        "near of behind with under from",
        "the a this every some",
    ),
)


def past(verb):
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


@dataclass
class Item:
    """A sentence of the treebank; `shown` are its words as a task must show them.

    parts: the first clause, the joint, the second clause and the end, if CoordInv may take it.
    """

    rows: list = field(default_factory=list)
    tokens: dict = field(default_factory=dict)  # first word -> last word, form, whether it is shown
    parts: tuple | None = None

    def word(self, form, upos, xpos="_", feats="_"):
        number = str(len(self.rows) + 1)
        self.rows.append([number, form, form.lower(), upos, xpos, feats, "0", "root", "_", "_"])
        return self.rows[-1]

    def token(self, form, words, shown):
        first = len(self.rows) + 1
        found = [self.word(*word) for word in words]
        self.tokens[first] = (len(self.rows), form, shown)
        return found

    def shown_with_tags(self):
        found, number = [], 1
        while number <= len(self.rows):
            last, form, shown = self.tokens.get(number, (number, "", False))
            if shown:
                found.append((form, None))
            else:
                found += [(row[1], row) for row in self.rows[number - 1 : last]]
            number = last + 1
        return found

    @property
    def shown(self):
        return [form for form, _ in self.shown_with_tags()]

    @property
    def conllu(self):
        lines = []
        for number, row in enumerate(self.rows, start=1):
            if number in self.tokens:
                last, form, _ = self.tokens[number]
                lines.append("\t".join([f"{number}-{last}", form, *"________"]))
            lines.append("\t".join(row))
        return "\n".join(lines) + "\n\n"

    def capitalised(self):
        """Write the first word as a sentence begins."""
        form = self.rows[0][1]
        self.rows[0][1] = form[0].upper() + form[1:]
        if 1 in self.tokens:
            last, form, shown = self.tokens[1]
            self.tokens[1] = last, form[0].upper() + form[1:], shown
        return self


def hang(child, parent, name):
    child[6:8] = parent[0], name


def phrase(item, dice, deep):
    """Write a noun with what belongs to it, and return the noun."""
    if dice.random() < 0.08:
        return item.word(dice.choice(NAMES), "PROPN", "NNP", "Number=Sing")
    if dice.random() < 0.05:
        return item.word("I", "PRON", "PRP", "Number=Sing")
    below = [(item.word(dice.choice(DETERMINERS), "DET", "DT"), "det")]
    below += [
        (item.word(dice.choice(ADJECTIVES), "ADJ", "JJ"), "amod")
        for _ in range(dice.choice([0, 0, 1, 2]))
    ]
    plural = dice.random() < 0.45
    if dice.random() < 0.06:  # a form that is both
        noun = item.word("sheep", "NOUN", "NNS" if plural else "NN", number_feature(plural))
    elif dice.random() < 0.05:  # the treebank does not tell its number
        noun = item.word("advice", "NOUN", "NN")
    else:
        form = dice.choice(NOUNS) + ("s" if plural else "")
        noun = item.word(form, "NOUN", "NNS" if plural else "NN", number_feature(plural))
    for word, name in below:
        hang(word, noun, name)
    if deep:
        if dice.random() < 0.15:
            adposition, determiner = item.token("im", [("in", "ADP"), ("dem", "DET")], shown=True)
            inner = item.word(dice.choice(NOUNS), "NOUN", "NN", "Number=Sing")
            hang(determiner, inner, "det")
        else:
            adposition = item.word(dice.choice(PREPOSITIONS), "ADP", "IN")
            inner = phrase(item, dice, deep - 1)
        hang(adposition, inner, "case")
        hang(inner, noun, "nmod")
    return noun


def number_feature(plural):
    return "Number=Plur" if plural else "Number=Sing"


def clause(item, dice, deep=None, subject=True):
    """Write a clause, and return its verb."""
    deep = dice.choice([0, 0, 1, 2, 3]) if deep is None else deep
    where = dice.choice(["nsubj", "obj"])
    below = []
    if subject:
        below.append((phrase(item, dice, deep if where == "nsubj" else 0), "nsubj"))
    kind = dice.random()
    if kind < 0.12:  # the features of the root itself say nothing of the tense
        pair = [(dice.choice(["do", "did"]), "AUX"), ("n't", "PART", "RB")]
        helper, negation = item.token(pair[0][0] + "n't", pair, shown=False)
        below += [(helper, "aux"), (negation, "advmod:neg")]
        verb = item.word(dice.choice(VERBS), "VERB", "VB", "VerbForm=Inf")
    elif kind < 0.2:
        below.append((item.word("was", "AUX", "VBD", "Tense=Past|VerbForm=Fin"), "aux:pass"))
        verb = item.word(past(dice.choice(VERBS)), "VERB", "VBN", "Tense=Past|VerbForm=Part")
        if subject:
            below[0] = (below[0][0], "nsubj:pass")
    elif kind < 0.26:  # a form that is both
        tense = dice.choice(["Past", "Pres"])
        xpos = "VBD" if tense == "Past" else "VBP"
        verb = item.word("put", "VERB", xpos, f"Mood=Ind|Tense={tense}|VerbForm=Fin")
    elif kind < 0.62:
        verb = item.word(past(dice.choice(VERBS)), "VERB", "VBD", "Tense=Past|VerbForm=Fin")
    else:
        verb = item.word(f"{dice.choice(VERBS)}s", "VERB", "VBZ", "Tense=Pres|VerbForm=Fin")
    if kind >= 0.2:
        below.append((phrase(item, dice, deep if where == "obj" else 0), "obj"))
        if dice.random() < 0.05:
            below.append((phrase(item, dice, 0), "obj"))
    for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
        below.append((item.word(dice.choice(ADVERBS), "ADV", "RB"), "advmod"))
    if dice.random() < 0.3:
        adposition = item.word(dice.choice(PREPOSITIONS), "ADP", "IN")
        inner = phrase(item, dice, dice.choice([0, 1]))
        hang(adposition, inner, "case")
        below.append((inner, "obl"))
    for word, name in below:
        hang(word, verb, name)
    return verb


def stop(item, root):
    hang(item.word(".", "PUNCT", "."), root, "punct")


def plain(dice):
    item = Item()
    stop(item, clause(item, dice))
    return item.capitalised()


def quoted(dice):
    item = Item()
    mark = item.word('"', "PUNCT", "``")
    root = clause(item, dice)
    for word in (mark, item.word('"', "PUNCT", "''")):
        hang(word, root, "punct")
    stop(item, root)
    return item


def coordinated(dice, lower=False):
    """Two clauses with subjects, joined at the top: CoordInv may take it."""
    item, marks = Item(), []
    root = clause(item, dice, dice.choice([0, 0, 1]))
    first = len(item.shown)
    if dice.random() < 0.6:
        marks.append(item.word(",", "PUNCT", ","))
    joint = item.word(dice.choice(["and", "but", "or"]), "CCONJ", "CC")
    begin = len(item.shown)
    second = clause(item, dice, dice.choice([0, 0, 1]))
    for mark in marks:
        hang(mark, second, "punct")
    joined(item, root, joint, second)
    end = len(item.shown)
    stop(item, root)
    if not lower:
        item.capitalised()
    shown = item.shown
    item.parts = shown[:first], shown[first:begin], shown[begin:end], shown[end:]
    return item


def joined(item, first, joint, second):
    hang(joint, second, "cc")
    hang(second, first, "conj")
    return first


def too_short(dice):
    item = Item()
    name = item.word(dice.choice(NAMES), "PROPN", "NNP", "Number=Sing")
    root = item.word(f"{dice.choice(VERBS)}s", "VERB", "VBZ", "Tense=Pres|VerbForm=Fin")
    hang(name, root, "nsubj")
    stop(item, root)
    return item


def too_long(dice):
    item = Item()
    root = clause(item, dice, 1)
    while len(item.shown) < 28:
        hang(item.word(dice.choice(ADVERBS), "ADV", "RB"), root, "advmod")
    stop(item, root)
    return item.capitalised()


def without_tree(dice):
    item = plain(dice)
    for row in item.rows:
        row[6:8] = "_", "_"
    return item


KINDS = {
    plain: 750,
    coordinated: 330,
    quoted: 25,
    too_short: 10,
    too_long: 10,
    without_tree: 10,
}


def treebank():
    dice, found, bags = random.Random(7), [], set()
    by_length = defaultdict(list)

    def is_new(item):
        words = [word.lower() for word in item.shown]
        bag = tuple(sorted(words))
        if bag in bags:
            return False
        for other in by_length[len(words)]:
            if len(words) > 4 and sum(a != b for a, b in zip(words, other, strict=True)) < 3:
                return False
        bags.add(bag)
        by_length[len(words)].append(words)
        return True

    for kind, number in KINDS.items():
        wanted = len(found) + number
        while len(found) < wanted:
            item = kind(dice)
            if (len(item.shown) <= 28 or kind is too_long) and is_new(item):
                found.append(item)
    dice.shuffle(found)
    again = [item for item in found if item.rows[0][6] != "_" and len(item.shown) in (9, 10)][:9]
    return [*found, *again]


ITEMS = treebank()
BY_TEXT = {" ".join(item.shown): item for item in ITEMS}
USABLE = {
    text: item
    for text, item in BY_TEXT.items()
    if 5 <= len(item.shown) <= 28 and item.rows[0][6] != "_"
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebank")
    half = len(ITEMS) // 2
    for name, items in (("a", ITEMS[:half]), ("b", ITEMS[half:])):
        (folder / f"{name}.conllu").write_text("".join(item.conllu for item in items))
    return [folder / "a.conllu", folder / "b.conllu"]


@pytest.fixture(scope="module")
def tasks(corpora, tmp_path_factory):
    return made(tmp_path_factory.mktemp("made") / "tasks", *corpora, *OPTIONS)


@pytest.fixture(scope="module")
def small(corpora, tmp_path_factory):
    """The tasks when the sizes leave out many sentences."""
    return made(tmp_path_factory.mktemp("small") / "tasks", *corpora, *SMALL)


# --------------------------------------------------------------------------- what holds everywhere


@pytest.mark.parametrize("task", FILES)
def test_labels_are_balanced_and_no_sentence_occurs_twice(task, tasks):
    lines = lines_of(tasks, task)
    texts = [" ".join(words) for _, _, words in lines]
    assert len(set(texts)) == len(texts)
    assert len({text.lower() for text in texts}) == len(texts)
    labels = {label for _, label, _ in lines}
    assert len(labels) >= 2
    for split in SPLITS:
        counts = Counter(label for of, label, _ in lines if of == split)
        assert set(counts) == labels and len(set(counts.values())) == 1
    assert [of for of, _, _ in lines] == sorted((of for of, _, _ in lines), key=SPLITS.index)


@pytest.mark.parametrize("task", UNCHANGED)
def test_sentences_and_trees_are_those_of_the_treebank(task, tasks):
    trees = trees_of(tasks, task)
    lines = lines_of(tasks, task)
    assert len(trees) == len(lines)
    for (_, _, words), (tokens, tree) in zip(lines, trees, strict=True):
        item = USABLE[" ".join(words)]
        assert tokens == words
        assert [row[:8] for row in tree] == [row[:8] for row in item.rows]


def test_changed_sentences_have_no_trees(tasks):
    names = {path.name for path in (tasks / "trees").iterdir()}
    assert names == {f"{FILES[task]}.conllu.xz" for task in UNCHANGED}
    expected = {f"{name}.txt" for name in FILES.values()} | {"trees", "tasks.json"}
    assert {path.name for path in tasks.iterdir()} == expected


def test_what_is_made_passes_the_check(tasks):
    code, said = called("--check", tasks)
    assert code == 0, said
    assert said.count("no fault") == len(FILES)


@pytest.mark.parametrize("which", ["tasks", "small"])
def test_the_counts_of_the_record(which, request):
    folder = request.getfixturevalue(which)
    record = json.loads((folder / "tasks.json").read_text())
    assert record["trees"] == "gold" and record["refused"] == {}
    assert [source["name"] for source in record["corpora"]] == ["a.conllu", "b.conllu"]
    outside = sum(" ".join(item.shown) not in USABLE for item in ITEMS)
    assert sum(record["left_out"].values()) == outside
    assert record["left_out"]["it has no tree"] == KINDS[without_tree]
    for task, found in record["tasks"].items():
        assert found["sentences"] + sum(found["left_out"].values()) + outside == len(ITEMS)
        lines = lines_of(folder, task)
        counts = Counter(split for split, _, _ in lines)
        assert found["sentences"] == len(lines)
        assert found["classes"] == len({label for _, label, _ in lines})
        sizes = {"train": counts["tr"], "dev": counts["va"], "test": counts["te"]}
        assert found["splits"] == sizes
        if which == "small":  # no split is larger than its size
            assert sizes["train"] <= 40 and 0 < sizes["dev"] <= 8 and 0 < sizes["test"] <= 8


# -------------------------------------------------------------------------------- the rule of each


def test_sentence_length(tasks):
    bins = ["5-8", "9-12", "13-16", "17-20", "21-25", "26-28"]
    lines = lines_of(tasks, "SentLen")
    for _, label, words in lines:
        low, high = map(int, bins[int(label)].split("-"))
        assert low <= len(words) <= high
    assert {label for _, label, _ in lines} == set("012345")


def test_word_content(tasks):
    counts = Counter()
    for item in ITEMS:
        counts.update(word.lower() for word in item.shown)
    lines = lines_of(tasks, "WC")
    targets = {label for _, label, _ in lines}
    assert len(targets) == TARGETS
    for target in targets:
        assert len(target) >= 4
        assert sum(number >= counts[target] for number in counts.values()) >= RANK
    for _, label, words in lines:
        assert [word.lower() for word in words if word.lower() in targets] == [label]


def test_tree_depth_says_nothing_of_the_length(tasks):
    cells = Counter()
    for (split, label, words), (_, tree) in zip(
        lines_of(tasks, "TreeDepth"), trees_of(tasks, "TreeDepth"), strict=True
    ):
        deepest = 0
        for word in tree:
            steps, at = 0, word
            while at[6] != "0":
                at, steps = tree[int(at[6]) - 1], steps + 1
            deepest = max(deepest, steps)
        assert int(label) == deepest
        cells[split, len(words), deepest] += 1
    depths = {depth for _, _, depth in cells}
    assert depths == set(range(min(depths), max(depths) + 1)) and len(depths) >= 2
    for split, length, _ in cells:
        assert len({cells[split, length, depth] for depth in depths}) == 1
    assert len({length for _, length, _ in cells}) >= 5


def test_top_relations(tasks):
    def below_the_root(words):
        names = [relation(word) for word in children(words, root_of(words))]
        return "_".join(name for name in names if name != "punct")

    found = Counter()
    for item in ITEMS:
        text = " ".join(item.shown)
        if text in USABLE:
            found[below_the_root(item.rows)] += 1
    lines = lines_of(tasks, "TopRelations")
    labels = {label for _, label, _ in lines} - {"OTHER"}
    assert len(labels) == 19
    rarest = min(found[label] for label in labels)
    assert all(number <= rarest for label, number in found.items() if label not in labels)
    for (_, label, _), (_, words) in zip(lines, trees_of(tasks, "TopRelations"), strict=True):
        sequence = below_the_root(words)
        assert label == (sequence if sequence in labels else "OTHER")
        assert ":" not in label and "punct" not in label


def test_bigram_shift(tasks):
    places = Counter()
    for _, label, words in lines_of(tasks, "BShift"):
        assert '"' not in words
        if label == "O":
            assert " ".join(words) in USABLE
            continue
        assert label == "I" and " ".join(words) not in BY_TEXT
        found = []
        for place in range(len(words) - 1):
            back = [*words]
            back[place], back[place + 1] = back[place + 1], back[place]
            if item := USABLE.get(" ".join(back)):
                found.append((place, item))
        ((place, item),) = found
        assert place >= 1
        pair = item.shown_with_tags()[place : place + 2]
        assert all(row is None or row[3] != "PUNCT" for _, row in pair)
        places[place] += 1
    assert len(places) > 5  # it is not always the same place


def forms_of(folder, task, words_of):
    """Check what a form must not do, and return the labels of each form."""
    labels, splits = defaultdict(list), defaultdict(set)
    for (split, label, _), (_, words) in zip(
        lines_of(folder, task), trees_of(folder, task), strict=True
    ):
        (word,) = words_of(words, label)
        labels[word[1].lower()].append(label)
        splits[word[1].lower()].add(split)
    assert all(len(of_form) == 1 for of_form in splits.values())
    assert len(labels) >= 6
    return labels


@pytest.mark.parametrize("which", ["tasks", "small"])
def test_tense(which, request):
    def verb(words, label):
        root = root_of(words)
        assert features(root)["Tense"] == {"PAST": "Past", "PRES": "Pres"}[label]
        assert features(root)["VerbForm"] == "Fin"
        return [root]

    labels = forms_of(request.getfixturevalue(which), "Tense", verb)
    if which == "small":
        assert all(max(Counter(of_form).values()) <= 5 for of_form in labels.values())
    else:
        assert "PAST" in labels["put"] or "PRES" in labels["put"]


@pytest.mark.parametrize("task, name", [("SubjNum", "nsubj"), ("ObjNum", "obj")])
def test_number(task, name, tasks):
    def noun(words, label):
        found = [word for word in children(words, root_of(words)) if relation(word) == name]
        assert [word[3] for word in found] == ["NOUN"]
        assert features(found[0])["Number"] == {"NN": "Sing", "NNS": "Plur"}[label]
        return found

    labels = forms_of(tasks, task, noun)
    assert "advice" not in labels


def bigrams_and_tags():
    forms, tags, bigrams = Counter(), defaultdict(Counter), Counter()
    for item in ITEMS:
        pairs = item.shown_with_tags()
        lower = [form.lower() for form, _ in pairs]
        for form, (_, row) in zip(lower, pairs, strict=True):
            forms[form] += 1
            if row is not None:
                tags[form][row[4] if row[4] != "_" else row[3]] += 1
        for place, form in enumerate(lower):
            bigrams[form, lower[place + 1] if place + 1 < len(lower) else END] += 1
    return forms, tags, bigrams


def comparable(one, other):
    return one > 0 and other > 0 and 1 / math.e <= one / other <= math.e


def may_stand_for(other, lower, place, xpos, counts):
    """Return whether a word may stand at a place of a sentence, by the rule of SOMO."""
    forms, tags, bigrams = counts
    left, word = lower[place - 1], lower[place]
    right = lower[place + 1] if place + 1 < len(lower) else END
    return (
        other != word
        and ODD[0] <= forms[word] <= ODD[1]
        and ODD[0] <= forms[other] <= ODD[1]
        and max(tags[other], key=tags[other].__getitem__, default=None) == xpos
        and comparable(bigrams[left, other], bigrams[left, word])
        and comparable(bigrams[other, right], bigrams[word, right])
    )


def test_odd_man_out(tasks):
    counts = bigrams_and_tags()
    by_length = defaultdict(list)
    for item in USABLE.values():
        by_length[len(item.shown)].append(item)
    splits = defaultdict(set)
    for split, label, words in lines_of(tasks, "SOMO"):
        if label == "O":
            pairs = USABLE[" ".join(words)].shown_with_tags()
            lower = [form.lower() for form, _ in pairs]
            assert any(
                may_stand_for(other, lower, place, row[4], counts)
                for place, (_, row) in enumerate(pairs)
                if place and row is not None and row[3] in ("NOUN", "VERB")
                for other in counts[0]
            )
            continue
        assert label == "C"
        found = []
        for item in by_length[len(words)]:
            differ = [k for k, word in enumerate(item.shown) if word != words[k]]
            if len(differ) == 1:
                found.append((differ[0], item))
        ((place, item),) = found
        pairs = item.shown_with_tags()
        lower = [form.lower() for form, _ in pairs]
        row = pairs[place][1]
        assert place >= 1 and row[3] in ("NOUN", "VERB")
        assert may_stand_for(words[place], lower, place, row[4], counts)
        splits[words[place]].add(split)
    assert len(splits) > 5 and all(len(of_word) == 1 for of_word in splits.values())


def swapped(item, inside):
    """A sentence with its clauses swapped, and its first words written as they must be."""
    first, joint, second, end = item.parts
    if first[0][0].isupper():
        lower = first[0][0].lower() + first[0][1:]
        is_name = item.rows[0][3] == "PROPN"
        if not is_name and inside[first[0]] <= inside[lower]:
            first = [lower, *first[1:]]
        second = [second[0][0].upper() + second[0][1:], *second[1:]]
    return [*second, *joint, *first, *end]


def test_coordination_inversion(tasks):
    inside = Counter(word for item in ITEMS for word in item.shown[1:])
    changed = {" ".join(swapped(item, inside)): item for item in USABLE.values() if item.parts}
    strata, first_words = Counter(), Counter()
    for split, label, words in lines_of(tasks, "CoordInv"):
        text = " ".join(words)
        if label == "O":
            item = USABLE[text]
            assert item.parts is not None  # no other sentence has two clauses that may be swapped
            one, _, two, _ = item.parts
        else:
            assert label == "I" and text not in BY_TEXT
            item = changed[text]
            two, _, one, _ = item.parts
        longer = (len(one) > len(two)) - (len(one) < len(two))
        strata[split, label, longer] += 1
        first_words[words[0][0].isupper()] += 1
        assert words[-1] == "."
    for split in SPLITS:
        for longer in (-1, 0, 1):
            assert strata[split, "O", longer] == strata[split, "I", longer]
    assert all(sum(strata[s, "O", longer] for s in SPLITS) for longer in (-1, 0, 1))
    assert list(first_words) == [True]


# ------------------------------------------------------------------------------- seeds and orders


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_seed_gives_the_same_bytes(small, corpora, tmp_path):
    again = made(tmp_path / "again", *corpora, *SMALL, "--seed", 1)
    assert bytes_of(again) == bytes_of(small)


def test_another_seed_chooses_others(small, corpora, tmp_path):
    other = made(tmp_path / "o", *corpora, *SMALL, "--parsed", "--seed", 2)
    for task in ("SentLen", "BShift", "Tense", "SOMO", "CoordInv"):
        assert lines_of(other, task) != lines_of(small, task)
    assert json.loads((other / "tasks.json").read_text())["trees"] == "parsed"


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("which, options", [("tasks", OPTIONS), ("small", SMALL)])
def test_the_order_of_the_corpus_does_not_matter(which, options, request, tmp_path):
    blocks = [item.conllu for item in ITEMS]
    random.Random(3).shuffle(blocks)
    (tmp_path / "z.conllu").write_text("".join(blocks[:100]))
    (tmp_path / "y.conllu").write_text("".join(blocks[100:]))
    mixed = made(tmp_path / "mixed", tmp_path / "z.conllu", tmp_path / "y.conllu", *options)
    one, other = bytes_of(mixed), bytes_of(request.getfixturevalue(which))
    del one["tasks.json"], other["tasks.json"]  # it names the files
    assert one == other


def test_the_shares_of_a_smaller_task(corpora, tmp_path):
    folder = made(tmp_path / "t", *corpora, *OPTIONS, "--task", "BShift", "--shares", 2, 1, 1)
    counts = Counter(split for split, _, _ in lines_of(folder, "BShift"))
    assert counts["va"] == pytest.approx(counts["te"], abs=2)
    assert counts["tr"] == pytest.approx(2 * counts["te"], abs=4)


# ------------------------------------------------------------------- small corpora of one template

PEOPLE = [f"noun{letter}" for letter in "abcdefghijklmnopqrst"]
ANIMALS = ["cat", "dog", "bird", "cow", "hen"]


def tree(text):
    """Write a sentence of FORM/UPOS/HEAD/DEPREL or FORM/UPOS/HEAD/DEPREL/FEATS as CoNLL-U."""
    rows = []
    for number, entry in enumerate(text.split(), start=1):
        form, upos, head, name, *feats = entry.split("/")
        row = [str(number), form, "_", upos, "_", feats[0] if feats else "_", head, name, "_", "_"]
        rows.append("\t".join(row))
    return "\n".join(rows) + "\n\n"


def of_pairs(template):
    """Fill in all pairs of a noun N0 and an animal M0."""
    return [
        tree(template.replace("N0", noun).replace("M0", animal))
        for noun in PEOPLE
        for animal in ANIMALS
    ]


def sees(verb, tense="Past", end=""):
    return of_pairs(
        f"the/DET/2/det N0/NOUN/3/nsubj {verb}/VERB/0/{ROOT}/Tense={tense}|VerbForm=Fin "
        f"the/DET/5/det M0/NOUN/3/obj {end}"
    )


STOP = "./PUNCT/3/punct"
SEEN = [sentence for verb in ("saw", "met", "hit") for sentence in sees(verb, end=STOP)]


def outcome(folder, blocks, *options):
    """Make tasks from blocks of CoNLL-U in the folder; return exit code, messages and output."""
    corpus, out = folder / "corpus.conllu", folder / "out"
    corpus.write_text("".join(blocks), encoding="utf-8")
    code, said = called(corpus, "--out", out, "--min-sentences", 4, *options)
    return code, said, out


def made_of(folder, blocks, task, *options):
    code, said, out = outcome(folder, blocks, "--task", task, *options)
    assert code == 0, said
    return lines_of(out, task)


@pytest.mark.parametrize("task", ["Tense", "BShift"])
def test_forms_that_are_too_rare(task, tmp_path):
    """A form with fewer sentences than LOW is left out; other tasks do not ask for forms."""
    blocks = [*sees("saw")[:30], *sees("met")[:30], *sees("hit")[:30], *sees("sees", "Pres")[:30]]
    blocks += [*sees("meets", "Pres")[:30], *sees("hits", "Pres")[:30], *sees("fed")[:4]]
    lines = made_of(tmp_path, blocks, task, "--form-counts", 5, 30)
    assert any("fed" in words for _, _, words in lines) == (task != "Tense")


def test_a_sentence_with_two_trees_is_taken_once(tmp_path):
    deeper = [block.replace("\t5\tdet", "\t1\tdet") for block in SEEN[100:]]
    blocks, found = [*SEEN[:200], *deeper], []
    for order in (blocks, blocks[::-1]):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        found.append(made_of(folder, order, "TreeDepth"))
        texts = [" ".join(words) for _, _, words in found[-1]]
        assert len(set(texts)) == len(texts)
    assert found[0] == found[1]


# --------------------------------------------------------------------------------- faults that were


CLAUSES = (
    "The/DET/2/det N0/NOUN/3/nsubj slept/VERB/0/root and/CCONJ/7/cc the/DET/6/det "
    "M0/NOUN/7/nsubj slept/VERB/3/conj ./PUNCT/3/punct"
)


@pytest.mark.parametrize(
    "sentence, reason",
    [
        ('The/DET/2/det N0/NOUN/3/nsubj said/VERB/0/root "/PUNCT/3/punct M0/X/3/obj', "quotes"),
        (CLAUSES.replace("The/DET/2/det", "-/PUNCT/2/punct"), "starts with punctuation"),
        (CLAUSES.replace("./PUNCT/3/punct", "or/CCONJ/3/cc"), "exactly one coordinating conj"),
        (
            "The/DET/2/det N0/NOUN/6/nsubj and/CCONJ/5/cc the/DET/5/det M0/NOUN/2/conj "
            "slept/VERB/0/root",
            "does not coordinate the root",
        ),
        (CLAUSES.replace("./PUNCT/3/punct", "ran/VERB/3/conj"), "more than two clauses"),
        (CLAUSES.replace("/7/nsubj", "/7/obj"), "two clauses with subjects"),
        (CLAUSES.replace("./PUNCT/3/punct", "anyway/ADV/3/advmod"), "is not what follows"),
    ],
)
def test_sentences_without_clauses_to_swap(sentence, reason, tmp_path):
    blocks = [*joined_both_ways()[::3], *of_pairs(sentence)]
    code, said, out = outcome(tmp_path, blocks, "--task", "CoordInv")
    assert code == 0, said
    (found,) = json.loads((out / "tasks.json").read_text())["tasks"].values()
    assert [n for why, n in found["left_out"].items() if reason in why] == [100]


def joined_both_ways():
    here = of_pairs(CLAUSES)
    there = of_pairs(CLAUSES.replace("N0", "X0").replace("M0", "N0").replace("X0", "M0"))
    return [*here, *there]


def two_adverbs():
    return [
        tree(
            f"the/DET/2/det {noun}/NOUN/5/nsubj {one}/ADV/5/advmod {other}/ADV/5/advmod "
            "slept/VERB/0/root"
        )
        for noun in PEOPLE
        for one in ANIMALS
        for other in ANIMALS
        if one != other
    ]


@pytest.mark.parametrize(
    "task, blocks",
    [("SOMO", SEEN[::3]), ("BShift", two_adverbs()), ("CoordInv", joined_both_ways()[::3])],
    ids=["SOMO", "BShift", "CoordInv"],
)
def test_a_changed_sentence_is_none_of_the_corpus(task, blocks, tmp_path):
    lines = made_of(tmp_path, blocks, task, "--odd-counts", 5, 400)
    texts = [" ".join(words) for _, _, words in lines]
    assert len(set(texts)) == len(texts)


def test_a_replacement_is_written_as_the_corpus_writes_it(tmp_path):
    template = "die/DET/2/det N0/NOUN/3/nsubj sah/VERB/0/root die/DET/5/det M0/NOUN/3/obj"
    blocks = [
        tree(template.replace("N0", noun.capitalize()).replace("M0", animal.capitalize()))
        for k, noun in enumerate(PEOPLE)
        for animal in ANIMALS[k % 2 :: 2]
    ]
    lines = made_of(tmp_path, blocks, "SOMO", "--odd-counts", 2, 400)
    assert {word for _, _, words in lines for word in words if word.islower()} == {"die", "sah"}


@pytest.mark.parametrize("name, upos", [("Rosa", "PROPN"), ("TV", "NOUN")])
def test_a_name_or_an_abbreviation_that_only_begins_sentences_keeps_its_case(name, upos, tmp_path):
    blocks = of_pairs(
        f"{name}/{upos}/2/nsubj fed/VERB/0/root N0/NOUN/2/obj and/CCONJ/7/cc the/DET/6/det "
        "M0/NOUN/7/nsubj left/VERB/2/conj ./PUNCT/2/punct"
    )
    lines = made_of(tmp_path, blocks, "CoordInv")
    assert {words[4] for _, label, words in lines if label == "I"} == {name}


def chains(number, upos="X"):
    """Sentences of ten words with a depth of 2 or 3."""
    dice = random.Random(1)
    for k in range(number):
        deepest = 2 + k % 2
        heads = [0, *(n if n <= deepest else 1 for n in range(1, 10))]
        yield tree(
            " ".join(
                f"{dice.choice(PEOPLE)}/{upos}/{head}/{'dep' if head else 'root'}" for head in heads
            )
        )


QUOTED = of_pairs(
    "“/PUNCT/4/punct The/DET/3/det N0/NOUN/4/nsubj slept/VERB/0/root and/CCONJ/8/cc "
    "the/DET/7/det M0/NOUN/8/nsubj ran/VERB/4/conj off/ADV/8/advmod ”/PUNCT/4/punct"
)


@pytest.mark.parametrize(
    "blocks, task, reason",
    [
        (QUOTED, "CoordInv", "0 sentences are left"),
        ([*chains(9, upos="_")], "BShift", "no parts of speech"),
    ],
)
def test_a_task_that_a_corpus_cannot_make(blocks, task, reason, tmp_path):
    code, said, out = outcome(tmp_path, blocks, "--task", task)
    assert code == 1 and f"{task}: " in said and reason in said and not out.exists()


@pytest.mark.parametrize(
    "task, options, least",
    [
        ("TreeDepth", ["--sizes", 140, 30, 30], 190),
        ("WC", ["--sizes", 210, 45, 45, "--content-rank", 5], 200),
        ("BShift", ["--sizes", 100, 10, 10], 120),
    ],
)
def test_sizes_are_reached_where_there_are_enough_sentences(task, options, least, tmp_path):
    blocks = list(chains(1000)) if task == "TreeDepth" else SEEN
    assert len(made_of(tmp_path, blocks, task, *options)) >= least


LATER = "".join(f"{number}\tnow\t_\tADV\t_\t_\t3\tadvmod\t_\t_\n" for number in range(7, 11))
LONGER = [block.replace("\n\n", "\n") + LATER + "\n" for block in SEEN]


@pytest.mark.parametrize("task", ["BShift", "SentLen"])
def test_sentences_in_capitals_are_not_taken_again(task, tmp_path):
    """A sentence and its like in capitals would be in two splits, or in both forms."""
    plain = [*SEEN[::3], *LONGER[1::3]]
    shouted = [
        "\n".join(
            "\t".join(cell.upper() if k == 1 else cell for k, cell in enumerate(row.split("\t")))
            for row in block.split("\n")
        )
        for block in plain
    ]
    code, said, out = outcome(tmp_path, [*plain, *shouted], "--task", task)
    assert code == 0, said
    assert called("--check", out)[0] == 0


def test_words_of_content_that_are_too_rare_are_left_out(tmp_path):
    """A rare word would leave no sentence for any other."""
    blocks = [
        tree(f"the/DET/2/det {noun}/NOUN/3/nsubj sat/VERB/0/root now/ADV/3/advmod {n}/NUM/3/obl")
        for noun, count in (("teacher", 20), ("doctor", 20), ("mayor", 2))
        for n in range(count)
    ]
    lines = made_of(tmp_path, blocks, "WC", "--content-rank", 1, "--content-words", 3)
    assert {label for _, label, _ in lines} == {"teacher", "doctor"}
    code, said, _ = outcome(tmp_path, blocks, "--task", "WC", "--content-words", 3, "--overwrite")
    assert code == 1 and "or fewer --content-words" in said


def test_spaces_inside_words_are_written_as_spaces(tmp_path):
    """The text is that of the corpus, while the tree counts such a word once."""
    blocks = [block.replace("\tmet\t", "\tmet up\t") for block in SEEN]
    lines = made_of(tmp_path, [*blocks, *LONGER], "SentLen")
    assert not any("\u2423" in word for _, _, words in lines for word in words)
    assert any(words[2:4] == ["met", "up"] for _, _, words in lines)
    kept = trees_of(tmp_path / "out", "SentLen")
    assert {tokens[2] for tokens, _ in kept} == {"saw", "hit", "met", "met\u2423up"}
