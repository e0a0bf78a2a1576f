"""Patches of fairseq functions that offer no hook; `table.PATCHES` lists all patches."""
