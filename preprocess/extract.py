#!/usr/bin/env python3
"""Run posattn extract from a checkout."""

from fairseq_posattn.cli.extract import command

if __name__ == "__main__":  # worker processes import this file
    command()
