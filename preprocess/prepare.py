#!/usr/bin/env python3
"""Run posattn prepare from a checkout."""

from fairseq_posattn.cli.prepare import command

if __name__ == "__main__":  # worker processes import this file
    command()
