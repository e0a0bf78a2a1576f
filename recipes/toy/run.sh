#!/usr/bin/env bash
# Create the toy treebank, train two models, one of them with trees, translate the test set, and print a table:
#   recipes/toy/run.sh
# --all trains all four default models for all updates. Options of recipes/table.sh may follow, such as
# --models supervised, --updates 200 or --work FOLDER. Files are written to recipes/toy/work.
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
