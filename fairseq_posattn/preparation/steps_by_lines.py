"""Run the steps of a preparation, those that process each line independently in shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.lines import Answer, Combine, LineStep, concatenate_all
from fairseq_posattn.jobs.made import File, Steps
from fairseq_posattn.jobs.running import discard, do_lines
from fairseq_posattn.preparation.job import Job


class StepsByLines(Steps):
    """Runs the unfinished steps of a job in its work folder."""

    def __init__(self, job: Job):
        super().__init__(job.work)
        self.job = job

    def do_lines(
        self,
        step: LineStep,
        others: Sequence[File] = (),
        check: Callable[[list[Answer]], object] = lambda answers: None,
    ) -> None:
        """Run a step unless it is already completed.

        others: additional files that the outputs depend on.
        check: a function that is called with the results of all shards. If it raises an InputError,
            the outputs are removed.
        """

        def checked() -> None:
            answers = self.run(step)
            try:
                check(answers)
            except InputError:
                for path in step.outputs:
                    Path(path).unlink()
                raise

        inputs, forget = [*step.inputs, *others], partial(self.discard, step)
        self.do(step.name, step.choices, inputs, step.outputs, checked, forget)

    def run(self, step: LineStep, combine: Combine = concatenate_all) -> list[Answer]:
        cluster, lines = self.job.cluster.for_plain_work, self.job.step_lines
        if step.on_gpus:
            cluster, lines = self.job.cluster, self.job.shard_lines
        answers = do_lines(step, self.folder(step), cluster, lines, combine)
        assert answers is not None  # do_lines waits for Slurm by default
        return answers

    def discard(self, step: LineStep) -> None:
        """Remove the shards of a step that will not be resumed."""
        discard(self.folder(step))

    def folder(self, step: LineStep) -> Path:
        """Return the folder of a step's shards; those of a parse are stored beside its output."""
        if step.on_gpus:
            return Path(f"{step.outputs[0]}.parts")
        return self.job.work / "shards" / step.name
