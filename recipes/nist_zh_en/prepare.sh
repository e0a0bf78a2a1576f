#!/usr/bin/env bash
# Turns a corpus into data for fairseq:
#   recipes/nist_zh_en/prepare.sh [OPTION ...] [-- OPTION OF posattn-prepare ...]
#
#   --from DIR    read the corpus in DIR, as recipe.sh describes it (default: download it, where that is allowed)
#   --work DIR    write all files to DIR (default: recipes/nist_zh_en/work)
#   --any-size    accept any number of sentences
#   --dry-run     only show the commands
#
# Options of posattn-prepare follow after --, such as --model-dir stanza_resources --workers 16, --download
# (fetches the parser's model), or --executor slurm --partition cpu (parses on a cluster).
set -euo pipefail
# shellcheck source=recipes/nist_zh_en/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
prepare "$@"
