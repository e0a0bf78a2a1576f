# shellcheck shell=bash
# shellcheck disable=SC2034 # read by experiment.sh
# WMT17 Chinese-English has News Commentary v12, the UN corpus and CWMT, the development set newsdev2017 and the test
# set newstest2017.
#
# These figures are published (BLEU of newstest2017; Yang et al. 2019, Table 2):
#   Base 24.13, 2D-CSans 24.80; Big 24.56, 2D-CSans 25.01
#
# The paper trains on 20.62 M sentences of the 25.1 M and does not say which ones; here they are those that pass the
# limits of posattn-prepare. It has 8 GPUs x 4,096 tokens and 32,000 merges of each language alone. Settings that it
# does not give are those of Vaswani et al. 2017: updates, learning rate, warm-up, dropout, label smoothing, number of
# averaged checkpoints, beam and length penalty (fairseq divides by length^0.6).
recipe=wmt17_zh_en
source=zh target=en
valid=newsdev2017 tests=(newstest2017)
sizes=(base big)
batch_tokens=$((8 * 4096))
warmup=4000 smoothing=0.1 beam=4 lenpen=0.6
embeddings=--share-decoder-input-output-embed separator=@@
prepare_options=(--lang zh-hans --separate --symbols 32000 --shards 5 --max-length 100 --max-ratio 2.5)
kept=(20620000 15) # the training sentences within the limits, give or take 15 percent
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

# DIR has train.zh and train.en, or the archives of sources.tsv. It may have the test sets; else sacrebleu fetches them.
collect() {
    if holds "$1" train.zh; then
        take_pair "$1" train train 25134743 25
    else
        collect_train "$1"
        expect "$raw/train.zh" 25134743 1
        expect "$raw/train.en" 25134743 1
    fi
    collect_test "$1" newsdev2017 wmt17/dev 2002
    collect_test "$1" newstest2017 wmt17 2001
}

collect_train() { # DIR
    local archive language
    [[ ! -e $raw/train.en ]] || return 0
    unpack "$1/training-parallel-nc-v12.tgz" "$raw" \
        training/news-commentary-v12.zh-en.zh training/news-commentary-v12.zh-en.en
    unpack "$1/UNv1.0.en-zh.tar.gz" "$raw"
    for archive in casia2015 casict2011 casict2015 datum2015 datum2017 neu2017; do
        unpack "$1/$archive.zip" "$raw/cwmt"
    done
    join_train zh "$raw"/cwmt/*/*_c[hn].txt
    join_train en "$raw"/cwmt/*/*_en.txt
}

# Joins the parts of one language; the file names of both languages have the same order.
join_train() { # LANGUAGE PART ...
    do_or_show python "$checkout/recipes/corpora.py" join "$raw/train.$1" \
        "$raw/training/news-commentary-v12.zh-en.$1" "$raw"/*/UNv1.0.en-zh."$1" "${@:2}"
}
