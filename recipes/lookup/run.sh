#!/usr/bin/env bash
# Runs the lookup-table task: draws the tables, trains the models of models.tsv, decodes the test set, and
# makes a table (Markdown and JSON) and a figure: recipes/lookup/run.sh [--seed N] [--work DIR]
#
# --seed N       draw the tables and train the models with this seed (default: 1)
# --work DIR     write all files to DIR, and the results to DIR/results (default: recipes/lookup/work)
# --updates N    train each model for N updates (default: 2000)
# --sequences N  test on N sequences of each longer length (default: 100)
#
# A run that was killed goes on when it is started again with the same options.
# RUNS=N trains N models at once, by default one for each core.
set -euo pipefail

# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

recipe=lookup here=recipes/lookup

number() { # OPTION VALUE
    [[ $2 =~ ^[0-9]+$ ]] || fail "$1 $2: expected a whole number"
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
((updates > 0)) || fail "--updates $updates: expected at least 1"
[[ -z $work || $work == /* ]] || work=$called_from/$work

cd "$checkout"
set_up "$@" # the loop above has taken all arguments

work=${work:-$PWD/$here/work}
runs=${RUNS:-$(env -u OMP_NUM_THREADS nproc)} # nproc would follow that variable
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore

alone_in "$work"
# `version` rises when the same options give other results than before.
made_from "$work/made_from.json" --made "$work" --files models=$here/models.tsv \
    --options seed="$seed" updates="$updates" sequences="$sequences" version=1

prepare() {
    [[ ! -e $work/data ]] || return 0
    # an epoch has 25 times the 232 examples, because fairseq takes some time to begin one
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
echo "training $(wc -l <$here/models.tsv) models; $work/*/train.log show the progress"
tr '\t\n' '\0\0' <$here/models.tsv |
    xargs -0 -n 2 -P "$runs" $here/model.sh "$work" "$seed" "$updates" || exit 1
python $here/evaluate.py "$work" --out "$work/results"
