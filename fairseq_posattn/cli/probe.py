r"""Probe which properties of a sentence the encoders of trained models represent.

    posattn probe data --path base=base.pt shan=shan.pt --tasks tasks --json probes.json
    posattn probe data --path shan=shan.pt --heads train.conllu dev.conllu test.conllu --json h.json
    posattn probe --table probes --results probes.json others.json

The task files are SentEval's files or files that posattn probe-tasks has written. Sentences are
segmented and parsed like the training data (prepare.json). If a task changes the words of its
sentences, they are parsed after the change. As a baseline, each model is also probed before
training, with the same trees; only an accuracy above this baseline can be attributed to training.
"""

from pathlib import Path

from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.requests import asked
from fairseq_posattn.probing.request import ProbeRequest


def main() -> None:
    request = asked(ProbeRequest, __doc__)
    request.refuse_incomplete()
    from fairseq_posattn.files.files import write_json
    from fairseq_posattn.files.records import as_document
    from fairseq_posattn.probing.results import read_probes
    from fairseq_posattn.probing.tables import Results, all_tables
    from fairseq_posattn.scoring.tables import markdown, write_tables

    others, paths = [read_probes(path) for path in request.results], [*request.results]
    if request.json and (request.path or request.vectors):
        from fairseq_posattn.probing.task_probing import TaskProbing
        from fairseq_posattn.probing.treebank import TreebankProbing

        with locked(request.json):
            found = (TreebankProbing if request.heads else TaskProbing)(request).run()
            write_json(request.json, as_document(found), indent=1)
        others, paths = [found, *others], [str(request.json), *paths]
    tables = all_tables(Results(others, paths))
    print("\n".join(markdown(tables)))
    if request.table:
        write_tables(tables, Path(request.table))


if __name__ == "__main__":
    run(main)
