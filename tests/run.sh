#!/usr/bin/env bash
# Lint and tests: tests/run.sh [--ci | --all] [PYTEST ARGUMENT ...]
#   --ci    also one long test of each family, as .ci/run does
#   --all   all tests
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

# As ruff and mypy do, look again only at what has changed: each script sources the same long ones.
lint_scripts() {
    local scripts state seen=$VIRTUAL_ENV/.shellcheck
    mapfile -t scripts < <(find . -path ./.venv -prune -o -path ./build -prune -o \
        \( -name '*.sh' -o -name '*.sbatch' -o -path ./.ci/run \) -type f -print | sort)
    state=$(shellcheck --version && sha256sum -- "${scripts[@]}")
    [[ -e $seen && $state == "$(<"$seen")" ]] && return
    shellcheck -x -- "${scripts[@]}"
    printf '%s\n' "$state" >"$seen"
}

# The linters run beside the tests.
found=$(mktemp)
trap 'rm -f "$found"' EXIT
(set -e && lint) >"$found" 2>&1 &
linting=$!

# Compiled tests are kept, or each worker compiles all of them for five seconds.
unset PYTHONDONTWRITEBYTECODE
# Workers with one thread each, as the tests' tensors are small. Those of the long tests often wait.
workers=2
[[ " $* " != *' --all '* && " $* " != *' --ci '* ]] || workers=3
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
status=0
python -m pytest -n "$workers" --dist worksteal "$@" || status=$?
wait "$linting" || { cat "$found" >&2 && echo 'tests/run.sh: the linters above found something' >&2 && exit 1; }
exit "$status"
