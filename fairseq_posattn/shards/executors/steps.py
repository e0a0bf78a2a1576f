"""These are the steps that datatrove's executors run for a sharded work."""

from __future__ import annotations

from datatrove.pipeline.base import PipelineStep

from fairseq_posattn.shards.work import Task


class DoShard(PipelineStep):
    """This step does the k-th shard in the k-th task."""

    type = "shards"

    def __init__(self, task: Task):
        super().__init__()
        self.name, self.task = task.name, task

    def run(self, data, rank: int = 0, world_size: int = 1):
        self.task.do(self.task.work, rank)


class Join(PipelineStep):
    """This step joins the shards after all of them were done."""

    name = "join"
    type = "shards"

    def __init__(self, task: Task):
        super().__init__()
        self.task = task

    def run(self, data, rank: int = 0, world_size: int = 1):
        assert self.task.join is not None  # `submit` asks for this step only then
        self.task.join(self.task.work)
