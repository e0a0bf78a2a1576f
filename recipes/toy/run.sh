#!/usr/bin/env bash
# Makes the toy treebank, trains the models of recipe.toml on it, translates its test set with each, and prints a
# table, which is written to recipes/toy/work, too: recipes/toy/run.sh [OPTION OF recipes/table.sh ...]
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
engine table toy --cpu "$@"
