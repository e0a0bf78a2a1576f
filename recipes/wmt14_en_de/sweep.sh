#!/usr/bin/env bash
# Trains models with different window sizes and numbers of heads, as in Figure 2 of Yang et al. (2019):
#   recipes/wmt14_en_de/sweep.sh [OPTION ...] [-- OPTION OF fairseq-train ...]
# It writes WORK/sweep.md and WORK/sweep.png. As in the paper, the scores are those of newstest2013.
#
#   --size SIZE, --gpus N, --cpu, --processes N, --tokens N, --precision P, --updates N, --seed N, --work DIR,
#   --dry-run      do what they do in train.sh
#   --last N       does what it does in evaluate.sh
set -euo pipefail
# shellcheck source=recipes/wmt14_en_de/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
widths=(3 7 11 15 19) neighbours=(3 5 7)
sweep "$@"
