#!/usr/bin/env bash
# Averages checkpoints, translates and scores: recipes/wat17_ja_en/evaluate.sh MODEL [OPTION ...]
#
#   --size SIZE, --seed N, --run NAME   choose the run that train.sh made with these options
#   --baseline RUN    compare with another run that was evaluated, such as sequence.base
#   --last N          average N checkpoints (default: see recipe.sh)
#   --with-parsing    measure the speed with live parsing, too
#   --examples N      keep trees and attention of the first N sentences for the report (default: 5)
#   --on-valid        evaluate on the validation set instead of the test sets
#   --gpus N, --cpu, --processes N, --work DIR, --dry-run   do what they do in train.sh
set -euo pipefail
# shellcheck source=recipes/wat17_ja_en/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
evaluate "$@"
