#!/usr/bin/env bash
# Trains a model: recipes/multi30k_en_de/train.sh MODEL [OPTION ...] [-- OPTION OF fairseq-train ...]
#
#   --size SIZE      choose one of the sizes of recipe.sh (default: its first)
#   --gpus N         use N GPUs of this machine (default: all)
#   --cpu            train without GPUs
#   --processes N    start N processes with --cpu (default: 1)
#   --nodes N --rendezvous HOST:PORT   run the same command on each of N machines (Slurm: recipes/train.sbatch)
#   --node-rank K    say which of them this one is, where 0 is HOST (default: torch decides)
#   --tokens N       put N tokens on a GPU at once (default: 4096); the batch stays the published one
#   --precision P    compute in bf16, fp16 or fp32 (default: what the GPU does best)
#   --updates N      stop after N updates (default: see recipe.sh)
#   --seed N         train with this seed (default: 1)
#   --run NAME       name the run (default: MODEL.SIZE, or MODEL.SIZE.seedN)
#   --work DIR       read the data and write all files in DIR (default: recipes/multi30k_en_de/work)
#   --dry-run        only show the commands
set -euo pipefail
# shellcheck source=recipes/multi30k_en_de/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
train "$@"
