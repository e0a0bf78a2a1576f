"""Run preparation steps that process each line independently, in shards if needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.preparation.job import Job
from fairseq_posattn.work.lines import Answer, Files, LineStep, Part
from fairseq_posattn.work.made import Steps
from fairseq_posattn.work.running import discard, do_lines


class StepsByLines:
    """Runs line-by-line steps with the workers of a job.

    WORK/shards contains the shards of unfinished steps.
    """

    def __init__(self, job: Job, steps: Steps):
        self.job = job
        self.steps = steps

    def do(
        self,
        name: str,
        choices: object,
        inputs: Files,
        outputs: Files,
        act: Callable[[Part], Answer | None],
        others: Sequence[str | Path] = (),
        check: Callable[[list[Answer]], object] = lambda answers: None,
    ) -> None:
        """Run a step unless it is already completed.

        act: see `LineStep`.
        others: additional files that the outputs depend on.
        check: a function that is called with the results of all shards. If it raises an InputError,
            the outputs are removed.
        """

        def checked() -> None:
            answers = self.run(LineStep(name, inputs, outputs, act))
            try:
                check(answers)
            except InputError:
                for path in outputs:
                    Path(path).unlink()
                raise

        everything = [*inputs, *others]
        self.steps.do(name, choices, everything, outputs, checked, partial(self.discard, name))

    def run(self, step: LineStep) -> list[Answer]:
        cluster = self.job.cluster.for_plain_work
        return do_lines(step, self.folder(step.name), cluster, self.job.step_lines)

    def discard(self, name: str) -> None:
        """Remove the shards of a step that will not be resumed."""
        discard(self.folder(name))

    def folder(self, name: str) -> Path:
        return self.job.work / "shards" / name
