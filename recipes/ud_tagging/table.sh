#!/usr/bin/env bash
# Trains and tests all models with several seeds on any number of treebanks:
#
#   recipes/ud_tagging/table.sh [OPTION ...] TREEBANK-DIR ... [-- OPTION OF fairseq-train ...]
#
#   --models 'M M'  train these rows of models.tsv (default: those of Tables 2c and 2d)
#   --seeds 'N N'   train with these seeds (default: 1 2 3)
#   --jobs N        run so many trainings at once (default: one for each GPU, or for each core)
#   --column C, --vectors FILE, --work DIR, --cpu   do what they do in run.sh
#
# It writes WORK/table.md, with mean and standard deviation beside the published figures, and WORK/curves.png.
# What is done is not done again.
set -euo pipefail
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

recipe=ud_tagging here=$checkout/recipes/ud_tagging
work=$here/work models='pe_add p_r temp conv conv2d' seeds='1 2 3' jobs='' passed=() treebanks=() training=()

while (($#)); do
    case $1 in
        --models | --seeds | --jobs | --work | --column | --vectors)
            [[ $# -gt 1 ]] || fail "$1 needs a value"
            printf -v "${1#--}" '%s' "$2"
            [[ $1 != --column && $1 != --vectors ]] || passed+=("$1" "$2")
            shift 2
            ;;
        --cpu) passed+=(--cpu) && export CUDA_VISIBLE_DEVICES='' && shift ;;
        --help | -h) usage 0 ;;
        --) training=("$@") && break ;;
        -*) echo "unknown option: $1" >&2 && usage 2 ;;
        *) treebanks+=("$1") && shift ;;
    esac
done
((${#treebanks[@]})) || { echo 'name the folders of one or more treebanks' >&2 && exit 2; }

set_up recipes
mkdir -p "$work"
gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
if [[ -z $jobs ]]; then
    jobs=$gpus
    ((gpus)) || jobs=$(env -u OMP_NUM_THREADS nproc) # nproc would follow that variable
fi

# Prints a line for each run; the runs of a treebank follow each other, so that it is complete early.
runs() {
    local treebank seed model
    for treebank in "${treebanks[@]}"; do
        for seed in $seeds; do
            for model in $models; do
                printf '%s\0' "$treebank" "$model" "$seed"
            done
        done
    done
}

# Does one run, which has its own GPU, number SLOT, where there are several.
one() { # GPUS TREEBANK MODEL SEED OPTION ...
    (($1 == 0)) || export CUDA_VISIBLE_DEVICES=$((SLOT % $1))
    "$here/run.sh" --treebank "$2" --model "$3" --seed "$4" "${@:5}" || exit 1
    echo "done: $(basename "$2") $3 $4"
}
export -f one
export here work

# Adds the options, which are the same for all runs, to the three words of each run.
with_options() {
    local words
    while mapfile -d '' -n 3 -t words && ((${#words[@]} == 3)); do
        printf '%s\0' "$gpus" "${words[@]}" --work "$work" "${passed[@]}" "${training[@]}"
    done
}

count=$((4 + 2 + ${#passed[@]} + ${#training[@]}))
failed=''
runs | with_options | xargs -0 -n "$count" -P "$jobs" --process-slot-var=SLOT \
    bash -c 'one "$@"' one || failed=yes
python "$here/table.py" "$work/results" --models "$here/models.tsv" --published "$here/published.tsv" \
    --out "$work/table.md" --figure "$work/curves.png" --curves "$work/runs"
[[ -z $failed ]] || { echo 'some runs failed: see their messages above; the same command does what is left' >&2 && exit 1; }
