#!/usr/bin/env bash
# Trains and evaluates all rows of models.tsv: recipes/nist_zh_en/table.sh [OPTION ...] [-- OPTION OF fairseq-train ...]
# and writes WORK/table.md, beside the published figures, and WORK/report.html.
#
#   --size SIZE         its rows only
#   --gpus N  --cpu  --processes N  --tokens N  --precision P  --updates N  --last N  --work DIR  --dry-run
set -euo pipefail
# shellcheck source=recipes/nist_zh_en/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
table "$@"
