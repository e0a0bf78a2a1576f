#!/usr/bin/env bash
# Tune an option over the values that a recipe names: recipes/sweep.sh RECIPE [OPTION ...]
# recipes/sweep.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine sweep "$@"
