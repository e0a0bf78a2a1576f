# shellcheck shell=bash
# shellcheck disable=SC2154 # recipe.sh sets them
# The recipes of published experiments share these functions. The recipe.sh of a folder sources this file, and
# sets what is particular to the folder:
#
#   recipe source target embeddings valid tests sources_table prepare_options
#   batch_tokens warmup smoothing lenpen beam       set_size sets arch updates lr dropout averaged for a size
#   collect DIR       copies or unpacks the corpus of DIR to $raw, as train, valid and tests with .LANGUAGE
#   references TEST   prints the options of posattn-score that name the references (default: $raw/TEST.TARGET)
#
# prepare.sh, train.sh, evaluate.sh and table.sh of the folder call `prepare`, `train`, `evaluate` and
# `table` with their arguments. All of them go on where they were interrupted.

# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

here=$checkout/recipes/$recipe
work=$here/work
host=$(uname -n) # HOSTNAME may name the machine that submitted the job
dry_run='' any_size='' sources_table='' save_every='' size_options=()
size='' run='' cpu='' gpus='' processes=''

# Reads an option that several scripts have, and sets `eaten` to the number of its words.
common_option() {
    eaten=1
    case $1 in
        --dry-run) dry_run=yes ;;
        --any-size) any_size=yes ;;
        --cpu) cpu=yes ;;
        --work | --size | --run | --gpus | --processes)
            [[ $# -gt 1 ]] || fail "$1 needs a value"
            printf -v "${1#--}" '%s' "$2"
            eaten=2
            ;;
        --help | -h) usage 0 ;;
        *) echo "unknown option: $1" >&2 && usage 2 ;;
    esac
}

# Sets up the environment, unless commands are only shown.
start() {
    if [[ -z $dry_run ]]; then
        mkdir -p "$work"
        work=$(cd "$work" && pwd)
    fi
    raw=$work/raw data=$work/data
    if [[ -z $dry_run ]]; then
        set_up recipes
    elif [[ -z ${VIRTUAL_ENV:-} && -d $checkout/.venv ]]; then
        PATH=$checkout/.venv/bin:$PATH
    fi
    export PYTHONWARNINGS=ignore
}

# Runs a command, and appends what it prints to LOG, too.
logged() { # LOG COMMAND ...
    local log=$1
    shift
    if [[ -n $dry_run ]]; then
        do_or_show "$@"
    else
        "$@" 2>&1 | tee -a "$log"
    fi
}

# Writes a line to a file, which is never there with a part of it.
write_line() { # FILE TEXT
    [[ -z $dry_run ]] || return 0
    printf '%s\n' "$2" >"$1.$host.$$"
    mv "$1.$host.$$" "$1"
}

# Succeeds if a file is there and newer than what it is made from.
is_fresh() { # FILE SOURCE ...
    local file=$1 from
    shift
    [[ -e $file && -z $dry_run ]] || return 1
    for from; do
        [[ ! $from -nt $file ]] || return 1
    done
}

# Makes the data.
prepare() {
    local from='' rest=()
    while (($#)); do
        case $1 in
            --from) from=${2:?--from needs a folder} && shift 2 ;;
            --) rest=("${@:2}") && break ;;
            *) common_option "$@" && shift "$eaten" ;;
        esac
    done
    [[ " ${rest[*]} " != *" --work "* && " ${rest[*]} " != *" --out "* ]] ||
        fail 'the recipe chooses the folders: give --work before --, and leave out --out'
    start
    if [[ -z $from ]]; then
        from=$work/download
        [[ -n $sources_table ]] || fail "this corpus cannot be downloaded; name its folder with --from DIR (see $here/recipe.sh)"
        do_or_show python "$checkout/recipes/corpora.py" fetch "$from" "$sources_table"
    fi
    [[ -d $from || -n $dry_run ]] || fail "$from: there is no such folder; name that of the corpus"
    [[ -n $dry_run ]] || mkdir -p "$raw"
    collect "$from"
    local test_prefixes=("${tests[@]/#/$raw/}")
    do_or_show python -m fairseq_posattn.cli.prepare --source "$source" --target "$target" \
        --train "$raw/train" --valid "$raw/$valid" --test "${test_prefixes[@]}" --out "$data" \
        "${prepare_options[@]}" "${rest[@]}"
    expect "$data.work/train.clean.$source" "${kept[@]}"
}

unpack() { # ARCHIVE FOLDER [NAME ...]
    do_or_show python "$checkout/recipes/corpora.py" unpack "$@"
}

take() { # FOLDER NAME OUT
    do_or_show python "$checkout/recipes/corpora.py" take "$@"
}

expect() { # FILE LINES [PERCENT]
    [[ -n $any_size ]] || do_or_show python "$checkout/recipes/corpora.py" expect "$@"
}

# Takes both languages of NAME in FOLDER, and checks how many sentences they have.
take_pair() { # FOLDER NAME OUT LINES [PERCENT]
    local language
    for language in "$source" "$target"; do
        take "$1" "$2.$language" "$raw/$3.$language"
        expect "$raw/$3.$language" "${@:4}"
    done
}

# Succeeds if FOLDER has NAME, plain or compressed.
holds() { # FOLDER NAME
    compgen -G "$1/$2" >/dev/null || compgen -G "$1/$2.[gxz][zs]*" >/dev/null
}

# Takes a test set of WMT from FOLDER if it is there, else from sacrebleu.
collect_test() { # FOLDER NAME SACREBLEU-SET LINES
    if holds "$1" "$2.$source"; then
        take_pair "$1" "$2" "$2" "$4"
    else
        fetch_wmt "$3" "$2" "$4"
    fi
}

# Takes a test set of WMT from sacrebleu, which downloads and checks it.
fetch_wmt() { # SET NAME LINES
    local side language
    for side in src ref; do
        language=$source && [[ $side == src ]] || language=$target
        if [[ -n $dry_run ]]; then
            do_or_show sacrebleu -t "$1" -l "$source-$target" --echo "$side"
        elif [[ ! -e $raw/$2.$language ]]; then
            sacrebleu -t "$1" -l "$source-$target" --echo "$side" >"$raw/$2.$language.part" ||
                fail "sacrebleu could not download $1: without a network, put $2.$source and $2.$target into the folder of --from"
            mv "$raw/$2.$language.part" "$raw/$2.$language"
        fi
        expect "$raw/$2.$language" "$3"
    done
}

# Trains a model.
train() {
    local model='' nodes=1 rendezvous='' node_rank='' tokens=4096 seed=1 precision='' max_updates='' rest=()
    while (($#)); do
        case $1 in
            --nodes | --rendezvous | --tokens | --seed | --precision)
                printf -v "${1#--}" '%s' "${2:?$1 needs a value}" && shift 2
                ;;
            --node-rank) node_rank=${2:?--node-rank needs a value} && shift 2 ;;
            --updates) max_updates=${2:?--updates needs a value} && shift 2 ;;
            --) rest=("${@:2}") && break ;;
            -*) common_option "$@" && shift "$eaten" ;;
            *) model=$1 && shift ;;
        esac
    done
    [[ -n $model ]] || usage 2
    start
    known_model "$model"
    choose_size
    updates=${max_updates:-$updates}
    ((updates / save_every > averaged)) || save_every=$((updates / (averaged + 1)))
    ((save_every)) || save_every=1
    folder=$(run_folder "$model" "$seed")
    [[ -n $dry_run ]] || same_options "$model $size $seed${precision:+ --precision $precision} ${rest[*]}"
    local done_before=0
    [[ ! -e $folder/finished ]] || done_before=$(<"$folder/finished")
    if [[ -z $dry_run && $done_before == "$updates" ]]; then
        echo "$folder: the training has ended before"
        return
    fi
    ((done_before < updates)) ||
        fail "$folder: this run was trained for $done_before updates already; name another run with --run"
    launcher
    batch "$tokens"
    [[ -d $data || -n $dry_run ]] || fail "$data: there are no data; start $here/prepare.sh first"
    [[ -n $dry_run ]] || same_machine "$world processes, $(given --max-tokens "$max_tokens") tokens, $(given --update-freq "$update_freq") batches"
    logged "$folder/$(log_name)" "${launch[@]}" "$(folders)" --user-dir "$checkout/fairseq_posattn" \
        --task structured_translation --source-lang "$source" --target-lang "$target" \
        --arch "posattn_$model$arch" "$embeddings" --dropout "$dropout" \
        --criterion label_smoothed_cross_entropy --label-smoothing "$smoothing" \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --clip-norm 0 \
        --lr "$lr" --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --warmup-init-lr 1e-7 \
        --max-tokens "$max_tokens" --update-freq "$update_freq" --max-update "$updates" \
        --save-dir "$folder" --no-epoch-checkpoints --save-interval-updates "$save_every" \
        --keep-interval-updates "$averaged" --tensorboard-logdir "$folder/tensorboard" \
        --log-format simple --log-interval 100 --seed "$seed" "${machine[@]}" \
        "${size_options[@]}" "${rest[@]}"
    write_line "$folder/finished" "$updates"
}

# Prints the name of this machine's log, as several machines would overwrite each other's lines in one file. The
# first machine, whose lines tell of the training, has train.log; without --node-rank torch decides which is first.
log_name() {
    local first=$((node_rank == 0))
    [[ -n $node_rank ]] || first=$([[ ${host%%.*} == "${rendezvous%%[.:]*}" ]] && echo 1 || echo 0)
    if ((nodes > 1 && !first)); then
        echo "train.$host.log"
    else
        echo train.log
    fi
}

# Prints the folder of the data, or all shards, as fairseq takes them.
folders() {
    local shards=("$data"/shard*)
    if [[ -d ${shards[0]} ]]; then
        (IFS=: && echo "${shards[*]}")
    else
        echo "$data"
    fi
}

# Ends with an error if the folder has another training, or other data, whose checkpoints would not fit.
same_options() { # OPTIONS
    mkdir -p "$folder"
    local inputs=()
    [[ ! -d $data ]] || mapfile -t inputs < <(
        find -L "$data" -type f \( -name '*.bin' -o -name 'dict.*' \) -printf '%P=%p\n' | sort
    )
    local made=("$folder/finished" "$folder"/checkpoint*.pt)
    if [[ ! -e $folder/made_from.json && -e $folder/options && $(<"$folder/options") == "$1" ]]; then
        made=("$folder/none") # version 0.1.0 began it, and stored only the options
    fi
    made_from "$folder/made_from.json" --made "${made[@]}" \
        --options training="$1" --files "${inputs[@]}" --remedy 'name another run with --run'
}

# Ends with an error if the model was trained with other dictionaries than the data have now.
same_dictionaries() { # FOLDER OF ALL SHARDS
    local shard=''
    [[ $data == "$1" ]] || shard=${data#"$1"/}/
    made_from "$folder/made_from.json" --made "$folder/finished" --part --remedy 'train a new run with --run' \
        --files "${shard}dict.$source.txt=$data/dict.$source.txt" "${shard}dict.$target.txt=$data/dict.$target.txt"
}

# Resets the place in the epoch if the processes or their batches change, because fairseq counts it in batches of a
# process. All machines read from the checkpoint how it was trained, so they agree.
same_machine() { # PROCESSES-AND-BATCH
    local before
    [[ -e $folder/checkpoint_last.pt ]] || return 0
    before=$(python "$checkout/recipes/machine_of.py" "$folder/checkpoint_last.pt")
    if [[ $before != "$1" ]]; then
        echo "$folder: the training goes on with $1 after $before, so the epoch begins again"
        machine+=(--reset-dataloader)
    fi
}

# Prints the value of an option that was given after `--`.
given() { # OPTION DEFAULT
    local k value=$2
    for k in "${!rest[@]}"; do
        [[ ${rest[k]} != "$1" ]] || value=${rest[k + 1]:-}
    done
    echo "$value"
}

known_model() {
    local file=$checkout/fairseq_posattn/config/model/$1.yaml known
    [[ -e $file ]] && return
    known=$(cd "$checkout/fairseq_posattn/config/model" && printf '%s ' *.yaml)
    fail "there is no model '$1'; choose one of: ${known//.yaml/}"
}

choose_size() {
    size=${size:-${sizes[0]}}
    [[ " ${sizes[*]} " == *" $size "* ]] || fail "there is no size '$size'; choose one of: ${sizes[*]}"
    set_size "$size"
    save_every=${save_every:-1500}
}

run_folder() { # MODEL SEED
    echo "$work/runs/${run:-$1.$size$([[ $2 == 1 ]] || echo ".seed$2")}"
}

# Sets `launch`, the command that starts a training on this machine, `machine`, options of fairseq, and `world`, the
# number of processes.
launcher() {
    local each
    launch=(python -m fairseq_cli.train) machine=()
    if [[ -n $cpu ]]; then
        each=${processes:-1}
        machine=(--cpu)
    else
        each=${gpus:-$(visible_gpus)}
        ((each > 0)) || fail 'no GPU is visible: add --cpu (which is slow), or --gpus N with --dry-run'
        [[ -n $precision ]] || precision=$(best_precision)
        case $precision in
            bf16 | fp16) machine=("--$precision") ;;
            fp32) ;;
            *) fail "--precision $precision: expected bf16, fp16 or fp32" ;;
        esac
    fi
    world=$((each * nodes))
    machine+=(--distributed-world-size "$world")
    if ((nodes > 1)); then
        [[ -n $rendezvous ]] || fail '--nodes needs --rendezvous HOST:PORT, which is the same on all machines'
        launch=(torchrun --nproc_per_node "$each" --nnodes "$nodes")
        if [[ -n $node_rank ]]; then
            launch+=(--node_rank "$node_rank" --master_addr "${rendezvous%:*}" --master_port "${rendezvous##*:}")
        else
            launch+=(--rdzv_backend c10d --rdzv_endpoint "$rendezvous" --rdzv_id "${SLURM_JOB_ID:-$recipe}")
        fi
        launch+=(-m fairseq_cli.train)
    elif ((world > 1)); then
        launch=(torchrun --standalone --nproc_per_node "$each" -m fairseq_cli.train)
    fi
    [[ -z $cpu ]] || ((world == 1)) ||
        machine+=(--distributed-backend gloo --ddp-backend legacy_ddp)
}

# Sets max_tokens and update_freq so that the batch is the published one with any number of processes.
batch() { # TOKENS that fit one process
    update_freq=$(((batch_tokens + $1 * world - 1) / ($1 * world)))
    max_tokens=$((batch_tokens / (world * update_freq)))
}

visible_gpus() {
    python -c 'import torch; print(torch.cuda.device_count())'
}

best_precision() {
    python -c '
import torch
major = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 0
print("bf16" if major >= 8 else "fp16" if major == 7 else "fp32")'
}

# Averages checkpoints, translates and scores.
evaluate() {
    local model='' seed=1 baseline='' with_parsing='' last='' examples=5 on_valid=''
    while (($#)); do
        case $1 in
            --seed) seed=${2:?--seed needs a value} && shift 2 ;;
            --baseline) baseline=${2:?--baseline needs the name of a run} && shift 2 ;;
            --last) last=${2:?--last needs a number} && shift 2 ;;
            --examples) examples=${2:?--examples needs a number} && shift 2 ;;
            --with-parsing) with_parsing=yes && shift ;;
            --on-valid) on_valid=yes && shift ;;
            -*) common_option "$@" && shift "$eaten" ;;
            *) model=$1 && shift ;;
        esac
    done
    [[ -n $model || -n $run ]] || usage 2
    start
    choose_size
    folder=$(run_folder "$model" "$seed")
    local name=${folder##*/} k
    local whole=$data
    data=$(folders)
    data=${data%%:*} # the first shard has the other splits
    [[ -e $folder/finished || -n $dry_run ]] ||
        fail "$folder: the training has not ended; start $here/train.sh first"
    if [[ -z $dry_run ]]; then
        mkdir -p "$work/results"
        same_dictionaries "$whole"
    fi
    average_last "${last:-$averaged}"
    if [[ -n $on_valid ]]; then
        evaluate_one "$valid" valid
        return
    fi
    for k in "${!tests[@]}"; do
        evaluate_one "${tests[$k]}" "test${k/#0/}"
    done
}

average_last() { # NUMBER
    if is_fresh "$folder/averaged" "$folder/finished" && [[ $(<"$folder/averaged") == "$1" ]]; then
        return
    fi
    do_or_show python -m fairseq_posattn.cli.average "$folder" --last "$1" \
        --out "$folder/averaged.pt"
    write_line "$folder/averaged" "$1"
}

evaluate_one() { # TEST SUBSET
    local test=$1 subset=$2 start=$folder/$1 result=$work/results/$name.$1.json options=()
    is_translated "$start" || translate "$data" "$subset" "$start"
    options=(--name "$name" --test "$test" --source-lang "$source" --target-lang "$target"
        --source "$work/data.work/$subset.words" --trees "$work/data.work/$subset.conllu.xz"
        --pieces "$start.src" --separator "$separator"
        --train-log "$folder"/train*.log --generate-log "$start".shard*)
    if [[ -n $with_parsing ]]; then
        is_translated "$start.parsed" || translate_parsing "$subset" "$start.parsed"
        options+=(--parsing-log "$start.parsed".shard*)
    fi
    if ((examples)); then
        is_fresh "$start.examples$examples.json" "$folder/averaged.pt" "$data/prepare.json" ||
            make_examples "$subset" "$start.examples$examples.json"
        options+=(--examples "$start.examples$examples.json")
    fi
    if [[ -n $baseline && $baseline != "$name" ]]; then
        options+=(--baseline "$work/runs/$baseline/$test.hyp" --baseline-name "$baseline")
    fi
    mapfile -t -O "${#options[@]}" options < <(references "$test")
    do_or_show python -m fairseq_posattn.cli.score "$start.hyp" --json "$result" \
        "${options[@]}" "${score_options[@]}"
}

# Writes the first sentences with their trees and the encoder's attention, for the report.
make_examples() { # SUBSET OUT
    local numbers
    mapfile -t numbers < <(seq 0 $((examples - 1)))
    do_or_show python -m fairseq_posattn.cli.examples "$data" --path "$folder/averaged.pt" \
        --gen-subset "$1" --sentences "${numbers[@]}" --trees "$work/data.work/$1.conllu.xz" \
        --beam "$beam" --lenpen "$lenpen" --out "$2"
}

# Succeeds if a test set is translated, and its logs are there, which the score reads.
is_translated() { # START
    is_fresh "$1.hyp" "$folder/averaged.pt" "$data/prepare.json" && [[ -e $1.src && -e $1.shard0 ]]
}

references() {
    printf '%s\n' --references "$raw/$1.$target"
}

# Translates a test set in shards, one for each GPU or process; START.hyp is written last.
translate() { # DATA SUBSET START
    local shards shard device=() visible lines batch_size=()
    pids=()
    if [[ -n $cpu ]]; then
        device=(--cpu) shards=${processes:-1}
    else
        shards=${gpus:-$(visible_gpus)}
        ((shards > 0)) || fail 'no GPU is visible: add --cpu (which is slow)'
    fi
    visible=${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 "$((shards - 1))")}
    IFS=, read -ra visible <<<"$visible"
    [[ -n $cpu ]] || ((shards <= ${#visible[@]})) || fail "--gpus $shards: only ${#visible[@]} are visible; name fewer"
    if [[ -z $dry_run ]]; then
        rm -f "$3".shard*
        # fairseq-generate fails on a shard without a batch
        lines=$(wc -l <"$work/data.work/$2.words")
        ((shards <= lines)) || shards=$lines
        batch_size=(--batch-size $((lines / shards)))
    fi
    trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
    for ((shard = 0; shard < shards; shard++)); do
        CUDA_VISIBLE_DEVICES=${visible[shard]:-} generate_shard "$@" &
        pids+=($!)
        [[ -z $dry_run ]] || wait
    done
    for shard in "${pids[@]}"; do
        [[ -n $dry_run ]] || wait "$shard" || fail "the translation failed; see $3.shard*"
    done
    trap - EXIT
    do_or_show python -m fairseq_posattn.cli.translations "$data" "$3".shard* --sources "$3.src" \
        --out "$3.hyp"
}

generate_shard() { # DATA SUBSET START
    local command=(python -m fairseq_cli.generate "$1" --user-dir "$checkout/fairseq_posattn"
        --task structured_translation --source-lang "$source" --target-lang "$target"
        --gen-subset "$2" --path "$folder/averaged.pt" --beam "$beam" --lenpen "$lenpen"
        --max-tokens 8000 "${batch_size[@]}" --distributed-world-size "$shards"
        --distributed-rank "$shard" "${device[@]}")
    if [[ -n $dry_run ]]; then
        do_or_show "${command[@]}"
    else
        exec "${command[@]}" >"$3.shard$shard" 2>&1 # this function runs in a background job of its own
    fi
}

# Translates data without tree files, which are parsed at the same time.
translate_parsing() { # SUBSET START
    local without=$work/data.without_trees file
    if [[ -z $dry_run ]]; then
        mkdir -p "$without"
        for file in "$data"/*; do
            [[ $file == *.tree.* ]] || ln -sf "$file" "$without/"
        done
    fi
    translate "$without" "$1" "$2"
}

# Trains and evaluates one more model under the name RUN, for table and sweep.
train_and_evaluate() { # MODEL SIZE RUN BASELINE [OPTION OF fairseq-train ...]
    "$here/train.sh" "$1" --size "$2" --run "$3" "${both[@]}" "${training[@]}" -- "${@:5}"
    "$here/evaluate.sh" "$1" --size "$2" --run "$3" "${both[@]}" "${evaluating[@]}" --baseline "$4"
}

report() { # RESULTS-FOLDER
    local results=("$1"/*.json)
    do_or_show python -m fairseq_posattn.cli.report "${results[@]}" --title "$recipe" \
        --out "$work/report.html"
}

# Sets `both`, `training`, `evaluating` and `rest` from the arguments of table and sweep.
options_of_rows() {
    both=() training=() evaluating=() rest=()
    while (($#)); do
        case $1 in
            --updates | --tokens | --precision | --seed) training+=("$1" "${2:?$1 needs a value}") && shift 2 ;;
            --run) fail 'each row has its own run: leave out --run, which belongs to train.sh' ;;
            --last | --examples) evaluating+=("$1" "${2:?$1 needs a value}") && shift 2 ;;
            --) rest=("${@:2}") && break ;;
            *)
                common_option "$@"
                [[ $1 == --size ]] || both+=("${@:1:eaten}")
                shift "$eaten"
                ;;
        esac
    done
}

# Trains and evaluates all models of models.tsv, and writes the table and the report.
table() {
    local both training evaluating rest model of_size baseline=''
    options_of_rows "$@"
    start
    [[ -z $size ]] || choose_size
    while read -r model of_size _; do
        [[ -z $size || $size == "$of_size" ]] || continue
        [[ $baseline == *."$of_size" ]] || baseline=$model.$of_size
        train_and_evaluate "$model" "$of_size" "$model.$of_size" "$baseline" "${rest[@]}"
    done < <(grep -v '^#' "$here/models.tsv")
    do_or_show python "$checkout/recipes/table.py" "$here/models.tsv" --results "$work/results" \
        --out "$work/table.md"
    report "$work/results"
}

# Trains windows of one head, then windows across several heads, as in Figure 2 of Yang et al. 2019.
sweep() {
    local both training evaluating rest width across
    options_of_rows "$@"
    start
    size=${size:-${sizes[0]}}
    evaluating+=(--on-valid)
    train_and_evaluate sequence "$size" "sequence.$size" "sequence.$size" "${rest[@]}"
    for width in "${widths[@]}"; do
        train_and_evaluate csan_1d "$size" "window_$width.$size" "sequence.$size" "${rest[@]}" \
            --encoder-attention "window(size=$width)@0-2"
    done
    for across in "${neighbours[@]}"; do
        train_and_evaluate csan_2d "$size" "window_11_across_$across.$size" "sequence.$size" \
            "${rest[@]}" --encoder-attention "window(size=11, across=$across)@0-2"
    done
    do_or_show python "$checkout/recipes/sweep.py" --results "$work/results" --size "$size" \
        --test "$valid" --out "$work/sweep"
}
