# shellcheck shell=bash
# shellcheck disable=SC2034 # read by experiment.sh
# Multi30k English-German has 29,000 image captions; it is a small corpus to try models on. The size `small` takes an
# evening on one GPU; `demo` is a demonstration on a CPU, of 20 minutes a model. No paper publishes these models on it.
#
# demo has 3 + 2 layers of width 128, 2,000 updates of 1,700 tokens, a learning rate of 4e-3 and a warm-up of 300.
# small has the sizes of fairseq's transformer_iwslt_de_en, 20,000 updates of 8,192 tokens, 5e-4 and 4,000.
# Both have 6,000 merges of both languages together, label smoothing 0.1, beam 5 and length penalty 1.
recipe=multi30k_en_de
source=en target=de
valid=val tests=(test_2016_flickr)
sizes=(demo small)
smoothing=0.1 beam=5 lenpen=1
embeddings=--share-all-embeddings separator=@@
prepare_options=(--symbols 6000)
kept=(28998 1) # the training sentences within the limits, give or take 1 percent
score_options=()

set_size() {
    case $1 in
        demo)
            arch=_tiny updates=2000 lr=4e-3 dropout=0.1 averaged=5 save_every=100
            batch_tokens=1700 warmup=300
            size_options=(--encoder-layers 3 --decoder-layers 2 --encoder-attention-heads 4
                --decoder-attention-heads 4 --encoder-embed-dim 128 --decoder-embed-dim 128
                --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256)
            ;;
        small)
            arch=_iwslt_de_en updates=20000 lr=5e-4 dropout=0.3 averaged=5 save_every=1000
            batch_tokens=8192 warmup=4000
            ;;
    esac
}

# shellcheck source=recipes/experiment.sh
. "$(dirname "${BASH_SOURCE[0]}")/../experiment.sh"
sources_table=$here/sources.tsv

# DIR has train, val and test_2016_flickr, each with .en and .de, plain or compressed.
collect() {
    take_pair "$1" train train 29000
    take_pair "$1" val val 1014
    take_pair "$1" test_2016_flickr test_2016_flickr 1000
}
