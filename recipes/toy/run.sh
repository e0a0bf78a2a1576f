#!/usr/bin/env bash
# Trains the models of models.tsv on the toy treebank, translates its test set with each, and prints a table:
# recipes/toy/run.sh writes recipes/toy/results/toy.json, and everything else to recipes/toy/work.
#
# UPDATES=N trains for N updates instead of 1400, and writes toy.N_updates.json. RUNS=N trains N models at
# once, by default one for each core.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=recipes/common.sh
. recipes/common.sh
[[ $# == 0 ]] || { sed -n '2,6s/^# //p' recipes/toy/run.sh >&2 && exit 2; }
set_up "$@"

recipe=toy here=recipes/toy
work=${TOY_WORK:-$here/work}
results=${TOY_RESULTS:-$here/results}
export UPDATES=${UPDATES:-1400}
json=$results/toy.json
[[ $UPDATES == 1400 ]] || json=$results/toy.${UPDATES}_updates.json
runs=${RUNS:-$(env -u OMP_NUM_THREADS nproc)} # nproc would follow that variable
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore

prepare() {
    find "$work" -mindepth 1 -delete
    mkdir -p "$results"
    python $here/treebank.py "$work/raw" --seed 1 --train 8000 --dev 600 --test 800
    for split in train dev test; do
        python -m fairseq_posattn.cli.extract "$work/raw/$split.src.conllu" --out "$work/$split"
    done
    python -m fairseq_posattn.cli.segment learn "$work/train.words" "$work/raw/train.tgt" \
        --symbols 800 --codes "$work/codes"
    for split in train dev test; do
        python -m fairseq_posattn.cli.segment apply "$work/$split.words" \
            --codes "$work/codes" --out "$work/$split.src"
        python -m fairseq_posattn.cli.segment apply "$work/raw/$split.tgt" \
            --codes "$work/codes" --out "$work/$split.tgt"
        python -m fairseq_posattn.cli.project --words "$work/$split.words" \
            --parents "$work/$split.parents" --pieces "$work/$split.src"
    done
    python -m fairseq_posattn.cli.binarize --source-lang src --target-lang tgt --joined-dictionary \
        --trainpref "$work/train" --validpref "$work/dev" --testpref "$work/test" \
        --destdir "$work/data" >"$work/binarize.log" 2>&1 || { cat "$work/binarize.log" >&2 && exit 1; }
}

alone_in "$work"
[[ -e $work/raw || -z $(ls -A "$work") ]] ||
    fail "$work is not a folder of this recipe: name another one with TOY_WORK"
echo "preparing the treebank"
set +e # in a list with `||`, -e would be off inside the function, too
(set -e && prepare) >"$work.log" 2>&1
status=$?
set -e
((status == 0)) || { cat "$work.log" >&2 && exit 1; }
echo "training $(wc -l <$here/models.tsv) models; $work/*/train.log show the progress"
tr '\t\n' '\0\0' <$here/models.tsv | xargs -0 -n 3 -P "$runs" $here/model.sh "$work"
python $here/evaluate.py "$work" --models $here/models.tsv --json "$json"
