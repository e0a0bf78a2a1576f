#!/usr/bin/env bash
# Trains one model of the lookup recipe, and decodes the test set: model.sh WORK SEED UPDATES NAME ARCH
set -euo pipefail

work=$1 seed=$2 updates=$3 name=$4 architecture=$5
folder=$work/$name
mkdir -p "$folder"
[[ ! -e $folder/generate.log ]] || exit 0 # an earlier run has done it

explain() { # LOG
    tail -n 20 "$1" >&2
    exit 255 # makes xargs start no other model
}

# The optimiser is Adagrad, because fairseq's Adam has decoupled weight decay, which lets the position generator depend
# on what differs at new lengths; a true L2 penalty does not. With --required-batch-size-multiple above 1 fairseq
# would lose the last sentences of a test set.
fairseq-train "$work/data" --user-dir fairseq_posattn --task translation \
    --source-lang src --target-lang tgt --arch "$architecture" --width 128 --dropout 0.3 \
    --criterion cross_entropy --optimizer adagrad --weight-decay 1e-3 --lr 3e-2 --clip-norm 1 \
    --lr-scheduler polynomial_decay --warmup-updates 100 \
    --total-num-update "$updates" --max-update "$updates" \
    --batch-size 58 --required-batch-size-multiple 1 \
    --no-epoch-checkpoints --disable-validation --save-interval-updates 500 \
    --keep-interval-updates 1 --cpu --num-workers 0 --seed "$seed" \
    --log-format json --log-interval 100 --save-dir "$folder" >>"$folder/train.log" 2>&1 ||
    explain "$folder/train.log"
fairseq-generate "$work/data" --user-dir fairseq_posattn --task translation \
    --source-lang src --target-lang tgt --path "$folder/checkpoint_last.pt" --batch-size 128 \
    --required-batch-size-multiple 1 --beam 1 --max-len-a 1 --max-len-b 2 --cpu >"$folder/generate.log.partial" 2>&1 ||
    explain "$folder/generate.log.partial"
mv "$folder/generate.log.partial" "$folder/generate.log"
echo "done: $name"
