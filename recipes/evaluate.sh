#!/usr/bin/env bash
# Translate the test sets with a trained model, and score them: recipes/evaluate.sh RECIPE MODEL [OPTION ...]
# recipes/evaluate.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine evaluate "$@"
