#!/usr/bin/env python3
"""Run posattn parse from a checkout."""

from fairseq_posattn.cli.parse import command

if __name__ == "__main__":  # worker processes import this file
    command()
