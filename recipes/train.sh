#!/usr/bin/env bash
# Train a model: recipes/train.sh RECIPE MODEL [OPTION ...] [-- OPTION OF fairseq-train ...]
# recipes/train.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine train "$@"
