# shellcheck shell=bash
# shellcheck disable=SC2034 # read by experiment.sh
# WAT17 Japanese-English has ASPEC, which its makers give on request: the first two sections of the training data (2 M
# sentences), as in Morishita et al. 2017, and its development and test sets.
#
# These figures are published (BLEU of test; Yang et al. 2019, Table 2):
#   Base 28.10, 2D-CSans 28.50; Big 28.41, 2D-CSans 28.73
#
# The paper has 8 GPUs x 4,096 tokens and 32,000 merges of each language alone. Settings that it does not give are those
# of Vaswani et al. 2017: updates, learning rate, warm-up, dropout, label smoothing, number of averaged checkpoints,
# beam and length penalty (fairseq divides by length^0.6).
recipe=wat17_ja_en
source=ja target=en
valid=dev tests=(test)
sizes=(base big)
batch_tokens=$((8 * 4096))
warmup=4000 smoothing=0.1 beam=4 lenpen=0.6
embeddings=--share-decoder-input-output-embed separator=@@
prepare_options=(--separate --symbols 32000 --max-length 100 --max-ratio 3)
kept=(2000000 10) # the training sentences within the limits, give or take 10 percent
score_options=()

set_size() {
    case $1 in
        base) arch=_wmt_en_de updates=100000 lr=7e-4 dropout=0.1 averaged=5 ;;
        big) arch=_wmt_en_de_big updates=300000 lr=5e-4 dropout=0.3 averaged=20 ;;
    esac
}

# shellcheck source=recipes/experiment.sh
. "$(dirname "${BASH_SOURCE[0]}")/../experiment.sh"

# DIR is ASPEC-JE, with train/train-1.txt, train/train-2.txt, dev/dev.txt and test/test.txt.
collect() {
    aspec train 1000000 "$1/train/train-1.txt" "$1/train/train-2.txt"
    aspec dev 1790 "$1/dev/dev.txt"
    aspec test 1812 "$1/test/test.txt"
}

# Writes the last two columns, which ||| separates: they are Japanese and English.
aspec() { # NAME LINES-EACH FILE ...
    local file
    for file in "${@:3}"; do
        expect "$file" "$2"
    done
    do_or_show python "$here/columns.py" "${@:3}" --out "$raw/$1"
}
