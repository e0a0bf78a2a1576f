#!/usr/bin/env bash
# Corpus -> data for fairseq: recipes/nist_zh_en/prepare.sh [OPTION ...] [-- OPTION OF posattn-prepare ...]
#
#   --from DIR    the corpus, as recipe.sh says (default: it is downloaded, where that may be)
#   --work DIR    for all files (default: recipes/nist_zh_en/work)
#   --any-size    whatever the number of sentences
#   --dry-run     only show the commands
#
# e.g. -- --model-dir stanza_resources --workers 16; -- --download for the parser's model;
# -- --executor slurm --partition cpu to parse on a cluster (posattn-prepare --help has all options)
set -euo pipefail
# shellcheck source=recipes/nist_zh_en/recipe.sh
. "$(dirname "${BASH_SOURCE[0]}")/recipe.sh"
prepare "$@"
