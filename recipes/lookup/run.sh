#!/usr/bin/env bash
# The lookup-table task: draws the tables, trains the models of models.tsv, decodes the test set, and
# makes a table (Markdown and JSON) and a figure: recipes/lookup/run.sh [--seed N] [--work DIR]
#
# --seed N     of the tables and of the models (1)       --work DIR     where everything lies
# --updates N  of each model (2000)                      --sequences N  of each longer length (100)
#
# Results: DIR/results. A run that was killed goes on when started again with the same options.
# RUNS=N trains N models at once, by default one for each core.
set -euo pipefail

# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

recipe=lookup here=recipes/lookup

number() { # OPTION VALUE
    [[ $2 =~ ^[0-9]+$ ]] || fail "$1 $2: a whole number is expected"
}

called_from=$PWD
seed=1 work='' updates=2000 sequences=100
while (($#)); do
    (($# > 1)) || usage 2
    case $1 in
        --seed) number "$@" && seed=$2 ;;
        --updates) number "$@" && updates=$2 ;;
        --sequences) number "$@" && sequences=$2 ;;
        --work) work=$2 ;;
        *) usage 2 ;;
    esac
    shift 2
done
((updates > 0)) || fail "--updates $updates: at least 1"
[[ -z $work || $work == /* ]] || work=$called_from/$work

cd "$checkout"
set_up "$@" # all of them are taken

work=${work:-$PWD/$here/work}
runs=${RUNS:-$(env -u OMP_NUM_THREADS nproc)} # nproc heeds that variable
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore

alone_in "$work"
# `version` rises when the same options come to make other results.
made_from "$work/made_from.json" --made "$work" --files models=$here/models.tsv \
    --options seed="$seed" updates="$updates" sequences="$sequences" version=1

prepare() {
    [[ ! -e $work/data ]] || return 0
    # an epoch of fairseq's takes time of its own: 25 times the 232 examples are one
    [[ -e $work/raw ]] ||
        python $here/tables.py "$work/raw" --seed "$seed" --sequences "$sequences" --repeat 25
    rm -rf "$work/data.partial"
    fairseq-preprocess --source-lang src --target-lang tgt --trainpref "$work/raw/train" \
        --validpref "$work/raw/valid" --testpref "$work/raw/test" \
        --destdir "$work/data.partial" >"$work/preprocess.log" 2>&1 ||
        { tail -n 5 "$work/preprocess.log" >&2 && exit 1; }
    mv "$work/data.partial" "$work/data"
}

prepare
echo "training $(wc -l <$here/models.tsv) models; progress: $work/*/train.log"
tr '\t\n' '\0\0' <$here/models.tsv |
    xargs -0 -n 2 -P "$runs" $here/model.sh "$work" "$seed" "$updates" || exit 1
python $here/evaluate.py "$work" --out "$work/results"
