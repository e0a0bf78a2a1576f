#!/usr/bin/env bash
# Prepare the data of a recipe: recipes/prepare.sh RECIPE [OPTION ...] [-- OPTION OF posattn prepare ...]
# recipes/prepare.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine prepare "$@"
