#!/usr/bin/env python3
"""Run posattn trees from a checkout."""

from fairseq_posattn.cli.trees import command

if __name__ == "__main__":  # worker processes import this file
    command()
