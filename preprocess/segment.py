#!/usr/bin/env python3
"""Run posattn segment from a checkout."""

from fairseq_posattn.cli.segment import command

if __name__ == "__main__":  # worker processes import this file
    command()
