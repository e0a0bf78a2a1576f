"""The patches of fairseq, which has no hooks for any of them: `table.PATCHES` lists them all."""
