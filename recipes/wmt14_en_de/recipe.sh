# shellcheck shell=bash
# shellcheck disable=SC2034 # read by experiment.sh
# WMT14 English-German has 4.5 M sentences, the development set newstest2013 and the test set newstest2014.
#
# These figures are published (BLEU of newstest2014; models.tsv has all of them):
#   Yang et al. 2019, Tables 1 and 2    Base 27.31, 1D-CSans 27.86, 2D-CSans 28.18; Big 28.58, 2D 28.74
#   Wang et al. 2019, Table 2, Sec. 5.3 Base 27.31, structural 28.30; Big 28.58, structural 29.19
#
# Both papers train on 8 GPUs x 4,096 tokens, with 32,000 merges of both languages together. Settings that they do not
# give are those of Vaswani et al. 2017: updates, learning rate (d^-0.5 w^-0.5 at its peak), warm-up, dropout, label
# smoothing, number of averaged checkpoints, beam and length penalty (fairseq divides by length^0.6).
recipe=wmt14_en_de
source=en target=de
valid=newstest2013 tests=(newstest2014)
sizes=(base big)
batch_tokens=$((8 * 4096))
warmup=4000 smoothing=0.1 beam=4 lenpen=0.6
embeddings=--share-all-embeddings separator=@@
prepare_options=(--tokenize moses --symbols 32000 --max-length 250 --max-ratio 3)
kept=(4500000 5) # the training sentences within the limits, give or take 5 percent
score_options=()

set_size() {
    case $1 in
        base) arch=_wmt_en_de updates=100000 lr=7e-4 dropout=0.1 averaged=5 ;;
        big) arch=_wmt_en_de_big updates=300000 lr=5e-4 dropout=0.3 averaged=20 ;;
    esac
}

# shellcheck source=recipes/experiment.sh
. "$(dirname "${BASH_SOURCE[0]}")/../experiment.sh"
sources_table=$here/sources.tsv

# DIR has train.en and train.de, or the archives of sources.tsv. It may have the test sets; else sacrebleu fetches them.
collect() {
    local language
    if holds "$1" train.en; then
        take_pair "$1" train train 4520620 1
    else
        for language in en de; do
            collect_train "$1" "$language"
            expect "$raw/train.$language" 4520620
        done
    fi
    collect_test "$1" newstest2013 wmt13 3000
    collect_test "$1" newstest2014 wmt14/full 3003
}

collect_train() { # DIR LANGUAGE
    local parts=(training/europarl-v7.de-en commoncrawl.de-en training/news-commentary-v9.de-en)
    [[ ! -e $raw/train.$2 ]] || return 0
    unpack "$1/training-parallel-europarl-v7.tgz" "$raw" "${parts[0]}.$2"
    unpack "$1/training-parallel-commoncrawl.tgz" "$raw" "${parts[1]}.$2"
    unpack "$1/training-parallel-nc-v9.tgz" "$raw" "${parts[2]}.$2"
    expect "$raw/${parts[0]}.$2" 1920209
    expect "$raw/${parts[1]}.$2" 2399123
    expect "$raw/${parts[2]}.$2" 201288
    do_or_show python "$checkout/recipes/corpora.py" join "$raw/train.$2" \
        "$raw/${parts[0]}.$2" "$raw/${parts[1]}.$2" "$raw/${parts[2]}.$2"
}
