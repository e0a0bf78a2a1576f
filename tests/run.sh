#!/usr/bin/env bash
# Run linters and tests: tests/run.sh [--ci | --all] [PYTEST ARGUMENT ...]
#   --ci    also run one long test of each family, as .ci/run does
#   --all   run all tests
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=recipes/common.sh
. recipes/common.sh
set_up test

lint() {
    python -m ruff check --quiet .
    python -m ruff format --check --quiet .
    lint-imports --no-cache >/dev/null || lint-imports --no-cache
    python -m mypy
    lint_scripts
}

# Like ruff and mypy, skip the check if nothing has changed; shellcheck is slow, as all scripts source common.sh.
lint_scripts() {
    local scripts state seen=$VIRTUAL_ENV/.shellcheck
    mapfile -t scripts < <(find . -path ./.venv -prune -o -path ./build -prune -o \
        \( -name '*.sh' -o -name '*.sbatch' -o -path ./.ci/run \) -type f -print | sort)
    state=$(shellcheck --version && sha256sum -- "${scripts[@]}")
    [[ -e $seen && $state == "$(<"$seen")" ]] && return
    shellcheck -x -- "${scripts[@]}"
    printf '%s\n' "$state" >"$seen"
}

# Run the linters in parallel with the tests.
found=$(mktemp)
trap 'rm -f "$found"' EXIT
(set -e && lint) >"$found" 2>&1 &
linting=$!

# Write bytecode; otherwise, each worker spends five seconds compiling all tests.
unset PYTHONDONTWRITEBYTECODE
# Use one thread per worker, as tensors are small, and a third worker for long tests, which often wait.
workers=2
[[ " $* " != *' --all '* && " $* " != *' --ci '* ]] || workers=3
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
status=0
python -m pytest -n "$workers" --dist worksteal "$@" || status=$?
wait "$linting" || { cat "$found" >&2 && echo 'tests/run.sh: linters reported the problems above; fix them' >&2 && exit 1; }
exit "$status"
