#!/usr/bin/env python3
"""Run posattn project from a checkout."""

from fairseq_posattn.cli.project import command

if __name__ == "__main__":  # worker processes import this file
    command()
