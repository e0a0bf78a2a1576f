"""Patch functions of fairseq where it has no hooks; `table.PATCHES` lists all patches."""
