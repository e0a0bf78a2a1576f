#!/usr/bin/env bash
# Train and evaluate a model with several values of an option, and plot the scores: recipes/sweep.sh RECIPE [OPTION ...]
# recipes/sweep.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine sweep "$@"
