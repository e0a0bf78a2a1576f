#!/usr/bin/env bash
# Write a recipe for your own corpus: recipes/new.sh FOLDER --source en --target ja --from FOLDER
# recipes/new.sh --help lists all options.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine new "$@"
