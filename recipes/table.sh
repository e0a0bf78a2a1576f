#!/usr/bin/env bash
# Train and evaluate all models of a recipe, and write tables and a report:
# recipes/table.sh RECIPE [OPTION ...] [-- OPTION OF fairseq-train ...]
# recipes/table.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine table "$@"
