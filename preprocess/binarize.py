#!/usr/bin/env python3
"""Run posattn binarize from a checkout."""

from fairseq_posattn.cli.binarize import main
from fairseq_posattn.files.command_line import run

if __name__ == "__main__":  # worker processes import this file
    run(main)
