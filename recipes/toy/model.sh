#!/usr/bin/env bash
# Trains one model of the toy recipe, and translates with it: model.sh WORK NAME POSITIONS ATTENTION
set -euo pipefail

work=$1 name=$2 positions=$3 attention=$4
folder=$work/$name
mkdir -p "$folder"

# The model has 2 + 2 layers of width 128, and the learning rate falls linearly to 0.
posattn-train "$work/data" --task structured_translation --source-lang src --target-lang tgt \
    --arch posattn_transformer --encoder-positions "$positions" --encoder-attention "$attention" \
    --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4 \
    --decoder-layers 2 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 \
    --share-all-embeddings --dropout 0.05 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.05 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 3e-3 \
    --lr-scheduler polynomial_decay --warmup-updates 200 \
    --total-num-update "$UPDATES" --max-update "$UPDATES" --max-tokens 700 \
    --no-epoch-checkpoints --disable-validation --cpu --num-workers 0 --seed 1 \
    --log-format json --log-interval 100 --save-dir "$folder" >"$folder/train.log" 2>&1 ||
    { tail -n 20 "$folder/train.log" >&2 && exit 255; } # 255 makes xargs start no other model
posattn-generate "$work/data" --task structured_translation --source-lang src --target-lang tgt \
    --path "$folder/checkpoint_last.pt" --batch-size 100 --beam 4 --remove-bpe --cpu \
    >"$folder/generate.log" 2>&1 || { tail -n 20 "$folder/generate.log" >&2 && exit 255; }
echo "done: $name"
