r"""Build the data for probing tasks from a corpus with trees, or check such data.

    posattn probe-tasks en_ewt-ud-*.conllu --out tasks --seed 1
    posattn probe-tasks --check tasks

The corpus is a treebank or an output of posattn parse. Nine tasks follow the rules of Conneau et
al. (2018); the classes of the tenth, TopRelations, are the sequences of relations of the root's
children. Accuracies on these data are not comparable with published ones. For tasks that change
words or their order, the sentences must be parsed again; for the other tasks, the trees of the
corpus are written as well.
"""

from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.requests import asked
from fairseq_posattn.files.terminal import say
from fairseq_posattn.probing.making.settings import ProbeTasksRequest
from fairseq_posattn.probing.tasks import task_called


def main() -> None:
    request = asked(ProbeTasksRequest, __doc__)
    if request.check:
        check(request.check, request.task)
        return
    from fairseq_posattn.probing.making.make import make, show
    from fairseq_posattn.probing.making.rules import RULES

    tasks = [task_called(name) for name in request.task or RULES]
    for task in tasks:
        if task.name not in RULES:
            raise InputError(f"{task.name} cannot be built from dependency trees; omit this task")
    assert request.out is not None  # checked by the request
    made = make(
        request.corpora,
        request.out,
        tasks,
        request.settings,
        parsed=request.parsed,
        several_roots=request.several_roots,
        overwrite=request.overwrite,
        named=bool(request.task),
    )
    show(made)


def check(folder: Path, tasks: list[str] | None) -> None:
    """Check a task folder; raise an InputError if errors are found."""
    from fairseq_posattn.probing.tasks import check_folder

    if faults := check_folder(folder, tasks, say):
        raise InputError(f"{folder}: {faults} fault(s) found; they are listed above")


if __name__ == "__main__":
    run(main)
