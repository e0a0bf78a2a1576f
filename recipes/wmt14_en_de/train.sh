#!/usr/bin/env bash
# Trains a model: recipes/wmt14_en_de/train.sh MODEL [OPTION ...] [-- OPTION OF fairseq-train ...]
#
#   --size SIZE         see recipe.sh (default: its first)
#   --gpus N            of this machine (default: all)     --cpu, --processes N   without GPUs
#   --nodes N --rendezvous HOST:PORT   the same command on each of N machines (Slurm: recipes/train.sbatch)
#   --node-rank K       which of them this one is, from 0, which is HOST (default: torch decides)
#   --tokens N          that fit a GPU at once (default: 4096); the batch stays the published one
#   --precision P       bf16, fp16 or fp32 (default: what the GPU does best)
#   --updates N  --seed N  --run NAME  --work DIR  --dry-run
set -euo pipefail
# shellcheck source=recipes/wmt14_en_de/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
train "$@"
