#!/usr/bin/env bash
# Makes the toy treebank, trains two models on it, one of them with trees, translates its test set with each, and
# prints a table: recipes/toy/run.sh. All four models of recipe.toml, for all of its updates: recipes/toy/run.sh --all
# Options of recipes/table.sh may follow, such as --models supervised, --updates 200 or --work FOLDER. All files are in recipes/toy/work.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
first=(--models sequence full_tree --updates 800)
if [[ ${1:-} == --all ]]; then
    first=()
    shift
else
    printf 'toy: two models of 800 updates, about two minutes on two cores; --all trains all of them\n' >&2
fi
engine table toy --cpu "${first[@]}" "$@"
