# shellcheck shell=bash
# shellcheck disable=SC2034 # read by experiment.sh
# NIST Chinese-English has 1.25 M sentences of the LDC, the development set MT02 and the test sets MT03 to MT06 with
# four references each. All of it comes from the user's own folder.
#
# These figures are published (case-insensitive 4-gram BLEU; Wang et al. 2019; models.tsv has all of them):
#   Table 1, MT02, Base    sequence 44.31, relative 45.02, structural 45.67
#   Table 2, MT03-06, Big  sequence 45.47 on average, relative 46.00, structural 46.40
#
# The paper has 32,000 merges of each language alone and a clipping distance of 16. Settings that it does not give are
# those of Vaswani et al. 2017: 8 GPUs x 4,096 tokens, updates, learning rate, warm-up, dropout, label smoothing, number
# of averaged checkpoints, beam and length penalty (fairseq divides by length^0.6).
recipe=nist_zh_en
source=zh target=en
valid=mt02 tests=(mt02 mt03 mt04 mt05 mt06)
sizes=(base big)
batch_tokens=$((8 * 4096))
warmup=4000 smoothing=0.1 beam=4 lenpen=0.6
embeddings=--share-decoder-input-output-embed separator=@@
prepare_options=(--lang zh-hans --separate --symbols 32000 --max-length 100 --max-ratio 3)
kept=(1250000 10) # the training sentences within the limits, give or take 10 percent
score_options=(--lowercase)

set_size() {
    case $1 in
        base) arch=_wmt_en_de updates=100000 lr=7e-4 dropout=0.1 averaged=5 ;;
        big) arch=_wmt_en_de_big updates=300000 lr=5e-4 dropout=0.3 averaged=20 ;;
    esac
}

# shellcheck source=recipes/experiment.sh
. "$(dirname "${BASH_SOURCE[0]}")/../experiment.sh"

# DIR has train.zh and train.en (one sentence a line), and for each test set MT02 to MT06 its source mt02.src.sgm and its
# references mt02.ref.sgm (one file with four sets, or several files mt02.ref*.sgm).
collect() {
    local k sizes_of_tests=(878 919 1788 1082 1664)
    take_pair "$1" train train 1250000 5
    for k in "${!tests[@]}"; do
        collect_test "$1" "${tests[$k]}" "${sizes_of_tests[$k]}"
    done
}

# Copies a test set. The data get its first reference; the score reads all of them.
collect_test() { # DIR NAME LINES
    local references=("$1/$2".ref*.sgm)
    [[ -n $dry_run ]] || rm -f "$raw/$2".ref*.sgm # these may come from another folder
    do_or_show cp "$1/$2.src.sgm" "${references[@]}" "$raw/"
    do_or_show python -m fairseq_posattn.cli.sgm "$1/$2.src.sgm" --out "$raw/$2.zh"
    do_or_show python -m fairseq_posattn.cli.sgm "${references[0]}" --first \
        --like "$1/$2.src.sgm" --out "$raw/$2.en"
    expect "$raw/$2.zh" "$3"
}

references() { # TEST
    printf '%s\n' --sgm "$raw/$1".ref*.sgm --sgm-source "$raw/$1.src.sgm"
}
