#!/usr/bin/env bash
# Trains a tagger on a treebank and tests it:
#
#   recipes/ud_tagging/run.sh --treebank DIR --model conv2d --seed 1 [OPTION ...] [-- OPTION OF fairseq-train ...]
#
#   --treebank DIR   read the files with train, dev and test in their names, one each: CoNLL-U or two columns
#   --model MODEL    train this row of models.tsv (default: conv2d)
#   --seed N         train with this seed (default: 1)
#   --column C       take the tags upos or xpos of CoNLL-U (default: upos)
#   --vectors FILE   start 20,000 words from these vectors and keep them fixed, as on PTB
#   --work DIR       write all files to DIR (default: recipes/ud_tagging/work)
#   --cpu            train without a GPU, even if there is one
#
# As in Table 1 of Dufter et al. 2020, RMSprop (0.001) trains on batches of 32 sentences until the accuracy on dev
# has not risen for 3 epochs. The result is WORK/results/TREEBANK.MODEL.SEED.json. What is done is not done again,
# and an interrupted training goes on. WORK/made_from stores from which options and files each result was made; for
# others, name another WORK.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

recipe=ud_tagging here=$checkout/recipes/ud_tagging
work=$here/work treebank='' model=conv2d seed=1 column=upos vectors='' cpu='' training=()

while (($#)); do
    case $1 in
        --treebank | --model | --seed | --column | --vectors | --work)
            [[ $# -gt 1 ]] || fail "$1 needs a value"
            printf -v "${1#--}" '%s' "$2"
            shift 2
            ;;
        --cpu) cpu=--cpu && shift ;;
        --help | -h) usage 0 ;;
        --) training=("${@:2}") && break ;;
        *) echo "unknown option: $1" >&2 && usage 2 ;;
    esac
done
[[ -n $treebank ]] || usage 2
[[ -d $treebank ]] || fail "$treebank is no folder: name one with the files of a treebank"
cut -f 1 "$here/models.tsv" | grep -qx "$model" ||
    fail "there is no model '$model' in models.tsv; choose one of: $(grep -v '^#' "$here/models.tsv" | cut -f 1 | tr '\n' ' ')"
[[ $seed =~ ^[0-9]+$ ]] || fail "--seed $seed: expected a number"

file_of() { # SPLIT
    local found=()
    mapfile -t found < <(find "$treebank" -maxdepth 1 -type f -name "*$1*" \
        ! -name '*.txt' ! -name '*.md' | sort)
    ((${#found[@]} == 1)) ||
        fail "$treebank has ${#found[@]} files with '$1' in their names, expected one"
    printf '%s' "${found[0]}"
}

mkdir -p "$work"
work=$(cd "$work" && pwd)
name=$(basename "$(cd "$treebank" && pwd)")
name=${name#UD_}
[[ $column == upos ]] || name=$name.$column
run=$name.$model.$seed
data=$work/data/$name folder=$work/runs/$run result=$work/results/$run.json
train=$(file_of train) dev=$(file_of dev) test=$(file_of test)
[[ -z $vectors || -r $vectors ]] || fail "$vectors: there is no such file: name one with word vectors"
words='50%' vectors_file=()
[[ -z $vectors ]] || words=20000 vectors_file=("vectors=$vectors")
set_up recipes
export PYTHONWARNINGS=ignore OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

prepare() {
    mkdir -p "$work/results"
    made_from "$work/made_from/$name.json" --made "$data" --options column="$column" words="$words" version=1 \
        --files train="$train" dev="$dev" test="$test"
    [[ -e $data ]] || python -m fairseq_posattn.cli.binarize_tagging --train "$train" --valid "$dev" \
        --test "$test" --column "$column" --words "$words" --destdir "$data"
}

alone_in "$folder"
# --cpu may change. `version` rises when the same options give other results than before.
in_turn "$work/data" prepare
made_from "$work/made_from/$run.json" --made "$result" "$folder"/checkpoint*.pt \
    --options model="$model" seed="$seed" training="${training[*]}" version=2 \
    --files data="$work/made_from/$name.json" "${vectors_file[@]}"
if [[ -e $result ]]; then
    echo "$result is done"
    exit
fi

train() {
    local suffix='' pretrained=()
    if [[ -n $vectors ]]; then
        suffix=_ptb
        pretrained=(--word-vectors "$vectors" --fixed-word-vectors)
    fi
    [[ ! -e $folder/trained ]] || return 0
    posattn-train "$data" --task tagging --arch "san_tagger_$model$suffix" "${pretrained[@]}" --criterion tagging \
        --optimizer rmsprop --lr 0.001 --batch-size 32 --seed "$seed" --max-epoch 200 --patience 3 \
        --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric --no-epoch-checkpoints \
        --curve "$folder/curve.jsonl" --num-workers 0 --log-format json --save-dir "$folder" \
        $cpu "${training[@]}" >>"$folder/train.log" 2>&1 ||
        { tail -n 20 "$folder/train.log" >&2 && fail "the training failed: see $folder/train.log"; }
    touch "$folder/trained"
}

test_it() {
    posattn-validate "$data" --task tagging --path "$folder/checkpoint_best.pt" --valid-subset test \
        --batch-size 64 --num-workers 0 --log-format json $cpu >"$folder/test.log" 2>&1 ||
        { tail -n 20 "$folder/test.log" >&2 && fail "the test failed: see $folder/test.log"; }
    python "$here/result.py" "$folder" --treebank "$name" --model "$model" --seed "$seed" \
        --training "${vectors:+--vectors ${vectors##*/} }${training[*]}" --out "$result"
}

train
test_it
