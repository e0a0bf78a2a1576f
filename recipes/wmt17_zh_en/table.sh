#!/usr/bin/env bash
# Trains and evaluates all rows of models.tsv:
#   recipes/wmt17_zh_en/table.sh [OPTION ...] [-- OPTION OF fairseq-train ...]
# It writes WORK/table.md, with the published figures beside ours, and WORK/report.html.
#
#   --size SIZE    take only the rows of this size
#   --gpus N, --cpu, --processes N, --tokens N, --precision P, --updates N, --seed N, --work DIR, --dry-run
#                  do what they do in train.sh
#   --last N, --examples N   do what they do in evaluate.sh
set -euo pipefail
# shellcheck source=recipes/wmt17_zh_en/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
table "$@"
