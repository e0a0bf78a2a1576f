#!/usr/bin/env bash
# Check and measure everything on one GPU, in three parts of less than ten minutes each:
#
#   recipes/benchmark/gpu.sh OUT             # all parts; the result is in OUT/gpu.json and OUT/gpu.md
#   recipes/benchmark/gpu.sh OUT --part b    # one part: a checks, b training and translation, c windows
#
# If it is killed, or a part takes longer, run the same command again, and it goes on where it was.
# --small tries all parts on any machine, also without a GPU, with sizes whose figures say nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=recipes/common.sh
. "$here/../common.sh"
set_up recipes
exec python "$here/gpu.py" "$@"
