#!/usr/bin/env bash
# Check and measure everything on one GPU, in parts of less than ten minutes each:
#
#   recipes/benchmark/gpu.sh OUT             # all parts; writes OUT/gpu.json and OUT/gpu.md
#   recipes/benchmark/gpu.sh OUT --part d    # one part: a checks, b training and translation, c windows,
#                                            # d --compile, e FlexAttention, f loss, g Multi30k,
#                                            # h slowest mechanisms
#
# Part g needs the prepared data of recipes/multi30k_en_de.
# If it is interrupted, or a part exceeds its time limit, run the same command again to resume.
# --small tries all parts on any machine, even without a GPU, with sizes that are too small for measurements.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=recipes/common.sh
. "$here/../common.sh"
set_up recipes
exec python "$here/gpu.py" "$@"
