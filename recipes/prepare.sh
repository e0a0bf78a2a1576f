#!/usr/bin/env bash
# Turns the corpus of a recipe into data: recipes/prepare.sh RECIPE [OPTION ...] [-- OPTION OF posattn prepare ...]
# recipes/prepare.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine prepare "$@"
