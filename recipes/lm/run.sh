#!/usr/bin/env bash
# Trains a language model of Dagan (2019) as the authors' program does, and prints its perplexity beside the
# published one, counted for each word and as published. It goes on where it was interrupted.
#
#   recipes/lm/run.sh --data DIR --model positional|attentive|lstm [OPTION ...] [-- OPTION OF fairseq-train ...]
#
#   --data DIR       read ptb.{train,valid,test}.txt or wiki.{train,valid,test}.tokens, plain, .xz, .gz or .zst
#   --corpus NAME    train on ptb or wikitext-2 (default: wikitext-2)
#   --epochs N       stop after N epochs, or after 25 without gain (default: 500; 750 for lstm on wikitext-2)
#   --gpus N         start N processes, one for each GPU (default: 1)
#   --cpu            train without a GPU
#   --words N        try about N words of training and N/10 of valid and test; words seen once or twice are unknown
#   --splitter NAME  split WikiText by punkt (of nltk), by rules (our own), or auto (default: by punkt if it is there)
#   --maps N         draw the attention of the first N sentences of test (default: 4; 0 draws none)
#   --work DIR       write results to DIR/results and figures to DIR/maps (default: recipes/lm/work)
#   --seed N         train with this seed (default: 1)
#   --dry-run        only show the commands
set -euo pipefail

called_from=$PWD
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
cd "$checkout"

recipe=lm here=recipes/lm
source='' model='' corpus=wikitext-2 epochs='' gpus=1 cpu='' words='' splitter=auto maps=4
work=$here/work seed=1 dry_run='' rest=()

read_options() {
    while (($#)); do
        case $1 in
            --cpu) cpu=yes && shift ;;
            --dry-run) dry_run=yes && shift ;;
            --help | -h) usage 0 ;;
            --data) source=${2:?--data needs a folder} && shift 2 ;;
            --model | --corpus | --epochs | --gpus | --words | --splitter | --maps | --work | --seed)
                [[ $# -gt 1 ]] || fail "$1 needs a value"
                printf -v "${1#--}" '%s' "$2" && shift 2
                ;;
            --) rest=("${@:2}") && break ;;
            *) echo "unknown option: $1" >&2 && usage 2 ;;
        esac
    done
    [[ -n $source && -n $model ]] || usage 2
    [[ $source == /* ]] || source=$called_from/$source
    [[ $work == /* || $work == "$here/work" ]] || work=$called_from/$work
}

# Sets what is particular to the model and the corpus, as in the authors' program (README.md says where the paper
# differs). The dropouts are those of the input, between the layers, and of the output.
settings() {
    dropouts=(0.5 0.2 0.5) lr_patience=5
    case $model in
        positional) arch=positional_attentive_lm batch=32 ;;
        attentive) arch=attentive_lm batch=32 lr_patience=6 ;;
        lstm) arch=lstm_lm_tied batch=20 ;;
        *) fail "--model $model: expected positional, attentive or lstm" ;;
    esac
    case $model.$corpus in
        lstm.ptb) dropouts=(0.4 0.25 0.5) ;;
        lstm.wikitext-2) epochs=${epochs:-750} ;;
        *.ptb | *.wikitext-2) ;;
        *) fail "--corpus $corpus: expected ptb or wikitext-2" ;;
    esac
    epochs=${epochs:-500}
    local name
    for name in epochs gpus seed maps words; do
        [[ ${!name:-0} =~ ^[0-9]+$ ]] || fail "--$name ${!name}: expected a number"
    done
    ((gpus > 0 && batch % gpus == 0)) ||
        fail "--gpus $gpus: the GPUs share the $batch sentences of a batch equally, so name a divisor of $batch"
    [[ -n $dry_run || -d $source ]] || fail "$source: there is no such folder; name that of the corpus"
}

# Prints the files of the corpus, as --files of made_from.py takes them; prepare.py says which one is missing.
corpus_files() {
    local split name packed
    for split in train valid test; do
        name=wiki.$split.tokens
        [[ $corpus != ptb ]] || name=ptb.$split.txt
        for packed in '' .xz .gz .zst; do
            [[ ! -e $source/$name$packed ]] || { echo "$split=$source/$name$packed" && break; }
        done
    done
}

# `version` rises when the same options give other results than before.
prepare() {
    local files
    mapfile -t files < <(corpus_files)
    made_from "$work/made_from/data.json" --made "$work/text" "$work/data" --files "${files[@]}" \
        --options corpus="$corpus" words="${words:-all}" splitter="$splitter" version=2
    if [[ ! -e $work/text/counts.json || -n $dry_run ]]; then
        do_or_show python $here/prepare.py --corpus "$corpus" --data "$source" --out "$work/text" \
            --splitter "$splitter" ${words:+--words "$words"}
    fi
    if [[ ! -e $work/data/dict.txt || -n $dry_run ]]; then
        do_or_show rm -rf "$work/data.partial"
        do_or_show fairseq-preprocess --only-source --trainpref "$work/text/train.txt" \
            --validpref "$work/text/valid.txt" --testpref "$work/text/test.txt" \
            --padding-factor 1 ${words:+--thresholdsrc 3} --destdir "$work/data.partial"
        do_or_show rm -rf "$work/data"
        do_or_show mv "$work/data.partial" "$work/data"
    fi
}

# Ends with an error if the model was trained with other options; --gpus, --cpu and --epochs may change.
check_model() {
    result=$work/results/$corpus.$model.json
    made_from "$work/made_from/$model.json" --made "$result" "$work/models/$model"/checkpoint*.pt \
        --options seed="$seed" training="${rest[*]}" version=2 \
        --files data="$work/made_from/data.json"
}

# 36 tokens are the 35 words that are read and the one after them, which is predicted. A multiple of 8 for batch
# sizes, fairseq's default, would turn 20 into 16. Batches are neither sorted by length nor, in as many epochs as
# --curriculum says, shuffled.
train() {
    local folder=$work/models/$model devices=(--distributed-world-size "$gpus") begun=0
    if [[ -z $dry_run ]]; then
        mkdir -p "$folder"
        [[ ! -e $folder/epochs ]] || begun=$(<"$folder/epochs")
        ((begun <= epochs)) ||
            fail "$folder: the training was begun with --epochs $begun, now it is $epochs; name another folder with --work"
        echo "$epochs" >"$folder/epochs"
        [[ ! -e $folder/trained || $(<"$folder/trained") != "$epochs" ]] || return 0
    fi
    [[ -z $cpu ]] || devices=(--cpu)
    do_or_show posattn-train "$work/data" --task language_modeling_in_order --arch $arch \
        --decoder-dropout-in "${dropouts[0]}" --dropout "${dropouts[1]}" --decoder-dropout-out "${dropouts[2]}" \
        --sample-break-mode eos --tokens-per-sample 36 --shorten-method truncate \
        --criterion summed_cross_entropy --optimizer sgd --lr 30 --clip-norm 0.25 --weight-decay 1.2e-6 \
        --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-patience "$lr_patience" \
        --batch-size $((batch / gpus)) --batch-size-valid 100 --required-batch-size-multiple 1 \
        --curriculum "$epochs" --max-epoch "$epochs" --patience 25 --no-epoch-checkpoints \
        --num-workers 0 --seed "$seed" --log-format simple --log-interval 100 \
        --log-file "$folder/train.log" --save-dir "$folder" "${devices[@]}" ${rest[@]+"${rest[@]}"}
    [[ -n $dry_run ]] || echo "$epochs" >"$folder/trained"
}

evaluate() {
    local path=$work/models/$model/checkpoint_best.pt drawn=$work/maps/$model/drawn
    if [[ $model != lstm && $maps != 0 ]] && ! { [[ $drawn -nt $path ]] && [[ $(<"$drawn") == "$maps" ]]; }; then
        do_or_show python $here/attention_maps.py "$work/data" --path "$path" --split test \
            --first "$maps" --out "$work/maps/$model"
        [[ -n $dry_run ]] || echo "$maps" >"$drawn"
    fi
    if [[ -n $dry_run || ! $result -nt $path ]]; then
        do_or_show python $here/perplexity.py "$work/data" --path "$path" \
            --counts "$work/text/counts.json" --split valid test --json "$result"
    fi
    do_or_show python $here/table.py --results "$work/results" --corpus "$corpus"
}

read_options "$@"
settings
if [[ -z $dry_run ]]; then
    set_up recipes
fi
export PYTHONWARNINGS=ignore
alone_in "$work/models/$model"
in_turn "$work" prepare
check_model
train
evaluate
