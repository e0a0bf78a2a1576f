#!/usr/bin/env python3
"""Run posattn binarize-tagging from a checkout."""

from fairseq_posattn.cli.binarize_tagging import command

if __name__ == "__main__":  # worker processes import this file
    command()
