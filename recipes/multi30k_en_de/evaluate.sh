#!/usr/bin/env bash
# Averages checkpoints, translates, scores: recipes/multi30k_en_de/evaluate.sh MODEL [OPTION ...]
#
#   --size SIZE  --seed N  --run NAME   as in training
#   --baseline RUN      significance and gaps to another run that was evaluated, e.g. sequence.base
#   --last N            checkpoints to average (default: see recipe.sh)
#   --with-parsing      measure the speed with live parsing, too
#   --examples N        of the first N sentences tree and attention are kept for the report (default: 5)
#   --on-valid          on the validation set instead of the test sets
#   --gpus N  --cpu  --processes N  --work DIR  --dry-run
set -euo pipefail
# shellcheck source=recipes/multi30k_en_de/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
evaluate "$@"
