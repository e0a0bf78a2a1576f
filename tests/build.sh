#!/usr/bin/env bash
# Build sdist and wheel, check them, and run the toy recipe with the wheel in a new environment:
# tests/build.sh [FOLDER]; the default folder is dist/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=recipes/common.sh
. recipes/common.sh
set_up test
out=$(realpath -m "${1:-dist}")
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
environment=$VIRTUAL_ENV backend=''
take_settings_of_pip

rm -rf "$out"
uv build --quiet --out-dir "$out" .
uvx --quiet twine check --strict "$out"/*
uv venv --quiet --python "$VIRTUAL_ENV/bin/python" "$empty/environment"
uv pip install --quiet --python "$empty/environment/bin/python" -c constraints.txt 'setuptools<81' "$(echo "$out"/*.whl)"
unset VIRTUAL_ENV PYTHONPATH
cd "$empty"
"$empty/environment/bin/posattn" recipe table "$checkout/recipes/toy" --cpu --models sequence full_tree --updates 100 --work "$empty/toy"
ls -l "$out"
