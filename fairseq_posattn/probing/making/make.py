"""Create a folder of probing task files from a CoNLL-U corpus."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.files import fingerprint, open_to_write, write_json
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.records import Open, as_document, one_of, read_record
from fairseq_posattn.files.terminal import say
from fairseq_posattn.files.version import __version__
from fairseq_posattn.probing.making.corpus import Counts, Shown
from fairseq_posattn.probing.making.sample import Kept, Sample
from fairseq_posattn.probing.making.settings import LONGEST, SHORTEST, Settings
from fairseq_posattn.probing.tasks import NAMES, SPLITS, Example, ProbingTask, write_examples
from fairseq_posattn.trees.conllu import block, parse_all_columns, read_blocks
from fairseq_posattn.trees.sentence import NO_TAGS, OPEN_BOX

RECORD, TREES = "tasks.json", "trees"
NEEDS_BIGRAMS = "SOMO"
NO_TREE = "it has no tree"


@dataclass(frozen=True)
class TasksRecord(Open):
    """The contents of tasks.json: how the tasks in a folder were made.

    trees: "gold" or "parsed".
    corpora: the name, size and checksum of each corpus.
    left_out: the number of sentences that were excluded from all tasks, by reason.
    tasks: the numbers of sentences and classes of each task, the sizes of its splits, and the
        number of sentences that it excluded, by reason.
    refused: the reasons why tasks could not be made, by task.
    """

    version: str
    trees: str = field(metadata=one_of("gold", "parsed"))
    settings: dict
    corpora: list[dict]
    left_out: dict[str, int]
    tasks: dict[str, dict]
    refused: dict[str, str]


def read_tasks_record(path: Path) -> TasksRecord:
    return read_record(TasksRecord, path, "make the tasks again with posattn probe-tasks")


def make(
    corpora: Sequence[str],
    out: Path,
    tasks: Sequence[ProbingTask],
    settings: Settings,
    parsed: bool = False,
    several_roots: str = "error",
    overwrite: bool = False,
    named: bool = False,
) -> TasksRecord:
    """Write the task files to the folder `out`, and return the contents of tasks.json.

    parsed: whether the trees of the corpus come from a parser rather than from annotators.
    named: whether the user requested these tasks by name. If so, raise an InputError if one of
        them cannot be made.
    """
    with folder_written_whole(out, replace=overwrite) as folder:
        counts = counted(corpora, any(task.name == NEEDS_BIGRAMS for task in tasks), several_roots)
        samples = [Sample(task, counts, settings) for task in tasks]
        shared: Counter[str] = Counter()
        for shown in sentences(corpora, several_roots):
            if reason := unusable(shown):
                shared[reason] += 1
                continue
            for sample in samples:
                sample.take(shown)
        done: dict[str, dict] = {}
        refused: dict[str, str] = {}
        for sample in samples:
            splits = sample.splits()
            if reason := refusal(sample, splits):
                refused[sample.task.name] = reason
                continue
            write_task(folder, sample.task, splits)
            done[sample.task.name] = described(sample, splits)
        if refused and (named or not done):
            raise InputError(f"{corpora[0]}: {why_nothing(done, refused, shared)}")
        record = TasksRecord(
            version=__version__,
            trees="parsed" if parsed else "gold",
            settings=as_document(settings),
            corpora=[{"name": Path(corpus).name, **fingerprint(corpus)} for corpus in corpora],
            left_out=dict(shared),
            tasks=done,
            refused=refused,
        )
        write_json(folder / RECORD, as_document(record), indent=1)
    return record


def sentences(corpora: Sequence[str], several_roots: str) -> Iterator[Shown]:
    blocks = (block for corpus in corpora for block in read_blocks(corpus))
    for found in Progress(blocks):
        yield Shown.of(parse_all_columns(found, several_roots))


def counted(corpora: Sequence[str], bigrams: bool, several_roots: str) -> Counts:
    counts = Counts()
    for shown in sentences(corpora, several_roots):
        counts.add(shown, unusable(shown) is None, bigrams)
    if not counts.forms:
        raise InputError(f"{corpora[0]} contains no sentences; use another CoNLL-U file")
    return counts


def unusable(shown: Shown) -> str | None:
    if shown.sentence.parents is None:
        return NO_TREE
    if not SHORTEST <= len(shown.forms) <= LONGEST:
        return f"its length is not between {SHORTEST} and {LONGEST} words"
    return None


def refusal(sample: Sample, splits: dict[str, list[Kept]]) -> str | None:
    """Return the reason why a task cannot be made, or None."""
    has_tags = any(tag != NO_TAGS.upos for _, tag in sample.rule.counts.tagged)
    if sample.rule.needs_tags and not has_tags:
        return "the corpus has no parts of speech (column 4, UPOS), which the task needs"
    total, least = sum(map(len, splits.values())), sample.settings.min_sentences
    if total < least:
        return f"{total:,} sentences are left, fewer than {least:,}"
    empty = [NAMES[split] for split, kept in splits.items() if not kept]
    return f"no sentence is left for {empty[0]}" if empty else None


def why_nothing(done: dict[str, dict], refused: dict[str, str], shared: Counter[str]) -> str:
    """Return the message for the first task that cannot be made."""
    name, reason = next(iter(refused.items()))
    if list(shared) == [NO_TREE]:
        return f"{shared[NO_TREE]:,} sentences have no tree, and {reason}; run posattn parse first"
    what = f"{name} cannot be made ({reason})"
    if not done:
        what = f"no task can be made ({name}: {reason})"
    fewer = ", or fewer --content-words" if name == "WC" else ""
    return f"{what}; use a larger corpus (with UPOS tags), or a lower --min-sentences{fewer}"


def described(sample: Sample, splits: dict[str, list[Kept]]) -> dict:
    """Return the entry of a task in tasks.json."""
    total = sum(map(len, splits.values()))
    left_out = dict(sample.left_out.most_common())
    if rest := sample.added - total:
        left_out["it is not needed for balanced splits"] = rest
    return {
        "sentences": total,
        "classes": len({kept.candidate.label for kept in splits["tr"]}),
        "splits": {NAMES[split]: len(kept) for split, kept in splits.items()},
        "left_out": left_out,
    }


def write_task(folder: Path, task: ProbingTask, splits: dict[str, list[Kept]]) -> None:
    """Write the sentences of a task, and also their trees unless the task changes words."""
    kept = [(split, one) for split in SPLITS for one in splits[split]]
    with open(folder / f"{task.file}.txt", "w", encoding="utf-8", newline="\n") as file:
        examples = (Example(split, one.candidate.label, plain(one)) for split, one in kept)
        write_examples(file, examples)
    if task.changes_words:
        return
    (folder / TREES).mkdir(exist_ok=True)
    with open_to_write(folder / TREES / f"{task.file}.conllu.xz") as packed:
        for number, (_, one) in enumerate(kept, start=1):
            packed.write(block(" ".join(plain(one)), one.sentence, number).encode())


def plain(kept: Kept) -> list[str]:
    """Return the words of a sentence, with the spaces that some languages have within words."""
    return [word.replace(OPEN_BOX, " ") for word in kept.candidate.words]


def show(made: TasksRecord) -> None:
    for reason, count in made.left_out.items():
        say(f"all tasks: {count:,} sentences were left out: {reason}")
    for name, task in made.tasks.items():
        splits = ", ".join(f"{count:,} {split}" for split, count in task["splits"].items())
        say(f"{name}: {task['sentences']:,} sentences of {task['classes']} classes ({splits})")
        for reason, count in task["left_out"].items():
            say(f"  {count:,} sentences were left out: {reason}")
    for name, reason in made.refused.items():
        say(f"{name}: not made, because {reason}")
