"""These are the steps that datatrove's executors run for a parse."""

from __future__ import annotations

from pathlib import Path

from datatrove.pipeline.base import PipelineStep

from fairseq_posattn.io.lock import locked
from fairseq_posattn.parsing.join import join
from fairseq_posattn.parsing.sharded_parse import PLAN, ShardedParse
from fairseq_posattn.parsing.worker import do_shard


class ParseShard(PipelineStep):
    """This step parses the k-th shard in the k-th task."""

    name = "parse"
    type = "parse"

    def __init__(self, work: ShardedParse):
        super().__init__()
        self.work = work

    def run(self, data, rank: int = 0, world_size: int = 1):
        do_shard(self.work, rank)


class Join(PipelineStep):
    """This step joins the shards after all of them were parsed."""

    name = "join"
    type = "parse"

    def __init__(self, work: ShardedParse):
        super().__init__()
        self.work = work

    def run(self, data, rank: int = 0, world_size: int = 1):
        with locked(self.work.out, wait=True):
            if not is_joined(self.work):
                join(self.work)


def is_joined(work: ShardedParse) -> bool:
    """Return whether another run wrote the result and removed the shards before this job began."""
    return not (work.folder / PLAN).exists() and Path(work.out).exists()
