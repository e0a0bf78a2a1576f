#!/usr/bin/env bash
# Lint and tests: tests/run.sh [--all] [PYTEST ARGUMENT ...]
#   --all   also the tests marked `long`
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=recipes/common.sh
. recipes/common.sh
set_up test

python -m ruff check --quiet .
python -m ruff format --check --quiet .
lint-imports --no-cache >/dev/null || lint-imports --no-cache
# Types are checked against the torch and numpy that constraints.txt has for Python 3.11 and later.
if python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python -m mypy
fi
find . -path ./.venv -prune -o -path ./build -prune -o \
    \( -name '*.sh' -o -name '*.sbatch' -o -path ./.ci/run \) -type f -print0 | xargs -0 shellcheck -x

# Two workers with one thread each: the tests' tensors are small.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
exec python -m pytest -n 2 --dist worksteal "$@"
