# shellcheck shell=bash
# The recipes and the tests share these functions. Source this file under `set -euo pipefail`:
#
#   . recipes/common.sh
#   set_up [EXTRA ...]     # such as `set_up` or `set_up test`
#
# After set_up, `python` has fairseq, this package and the extras. Without an active environment, set_up makes
# the checkout's .venv, with the exact versions of constraints.txt. An active environment (VIRTUAL_ENV, or one
# of conda other than base) gets only the requirements of pyproject.toml that it lacks. A stamp inside the environment
# makes the next call return at once. PYTHON names the Python that makes .venv.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

set_up() {
    local environment own='' log='' pins='' stamp key extras_there='' current=''
    choose_environment
    stamp=$environment/.fairseq_posattn
    key=$(stamp_key)
    if ! stamped "$@"; then
        exec {set_up_lock}<"$checkout"
        take_turn
        stamped "$@" || install_all "$@"
        exec {set_up_lock}<&-
    fi
    export VIRTUAL_ENV=$environment PATH="$environment/bin:$PATH"
}

choose_environment() {
    if [[ -n ${VIRTUAL_ENV:-} ]]; then
        environment=$VIRTUAL_ENV
    elif [[ -n ${CONDA_PREFIX:-} && ${CONDA_DEFAULT_ENV:-base} != base ]]; then
        environment=$CONDA_PREFIX
    else
        environment=$checkout/.venv
    fi
    if [[ $environment -ef $checkout/.venv || $environment == "$checkout/.venv" ]]; then
        own=yes
    elif [[ ! -x $environment/bin/python ]]; then
        give_up "the active environment $environment has no bin/python: deactivate it (unset VIRTUAL_ENV)"
    fi
}

# The first line of the stamp identifies what was installed from, the second line names the extras.
stamp_key() {
    (cd "$checkout" && { pwd -P && cat setup.py pyproject.toml constraints.txt; } | sha256sum)
}

stamped() {
    local old='' extras='' extra
    [[ -x $environment/bin/python && -f $stamp ]] || return 1
    { read -r old && read -r extras; } <"$stamp" || true
    [[ $old == "$key" ]] || return 1
    current=yes extras_there=$extras
    for extra; do
        [[ " $extras " == *" $extra "* ]] || return 1
    done
}

# Two commands that are started together must not install into one environment at the same time.
take_turn() {
    flock --nonblock "$set_up_lock" 2>/dev/null && return
    say 'waiting for the set-up of another run to end'
    flock "$set_up_lock" || say 'this file system has no locks, so the set-up goes on without one'
}

install_all() {
    local lacking remedy='deactivate this environment or use one with such a Python'
    log=$(mktemp "${TMPDIR:-/tmp}/set-up.XXXXXX" 2>/dev/null) ||
        give_up "cannot write to ${TMPDIR:-/tmp}: free some space there or set TMPDIR"
    if [[ -n $own ]]; then
        make_environment
        remedy="delete $environment"
    fi
    check_python_version "$environment/bin/python" "$remedy"
    has_pip || give_up "the active environment $environment has no pip: run python -m ensurepip in it"
    rm -f "$stamp" 2>>"$log" || true
    lacking=$(environment_py lacking "$@")
    if [[ -n $lacking || (-n $own && -z $current) ]]; then
        check_space "$lacking"
        check_compiler "$lacking"
        install_requirements "$@"
    fi
    environment_py linked || install 'this package' --no-deps --no-build-isolation --editable "$checkout"
    { printf '%s\n%s\n' "$key" "$extras_there $*" >"$stamp"; } 2>>"$log" || true # a read-only environment is checked each time
    rm -f "$log" "$pins"
}

make_environment() {
    local python
    ! has_pip || return 0
    find_python
    check_space torch
    say "making $environment ($("$python" -c 'import platform; print("Python", platform.python_version())'))"
    "$python" -m venv --clear "$environment" >>"$log" 2>&1 || explain_failure "making $environment"
}

has_pip() {
    "$environment/bin/python" -m pip --version >>"$log" 2>&1
}

# Sets `python` to the first one that works: fairseq-fixed has a wheel for 3.12, and is built for the others.
find_python() {
    local candidate version found='' without_venv=''
    if [[ -n ${PYTHON:-} ]]; then
        command -v "$PYTHON" >/dev/null || give_up "PYTHON=$PYTHON is no program: name one that is there"
        check_python_version "$PYTHON" 'set PYTHON to such a Python'
    fi
    for candidate in ${PYTHON:+"$PYTHON"} python3.12 python3.11 python3.13 python3; do
        version=$(python_version "$candidate") || continue
        found+=", $version ($candidate)"
        right_version "$version" || continue
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$candidate
            return
        fi
        without_venv=${without_venv:-$candidate}
        [[ -z ${PYTHON:-} ]] || break
    done
    if [[ -n $without_venv ]]; then
        version=$(python_version "$without_venv")
        give_up "$without_venv has no venv module: install it (Debian, Ubuntu: apt install python$version-venv)"
    fi
    found=${found:+Python ${found#, }}
    give_up "found ${found:-no python3}, need Python 3.11 to 3.13: install one (Debian, Ubuntu: apt install python3.12 python3.12-venv) or set PYTHON=/path/to/python"
}

python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

right_version() {
    [[ $1 == 3.11 || $1 == 3.12 || $1 == 3.13 ]]
}

check_python_version() { # PYTHON REMEDY
    local version
    version=$(python_version "$1") || give_up "$1 does not run: name another Python with PYTHON"
    right_version "$version" || give_up "found Python $version ($1), need Python 3.11 to 3.13: $2"
}

check_space() { # LACKING REQUIREMENTS
    local folder free need=3
    [[ $1 == *torch* || $1 == *fairseq* ]] || return 0
    [[ $1 == *torch* ]] || need=1
    for folder in "$(dirname "$environment")" "${TMPDIR:-/tmp}"; do
        free=$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }') || continue
        ((free >= need * 1024)) ||
            give_up "disk full: $folder has $free MiB free, about $need GiB are needed: free some space"
        need=1
    done
}

check_compiler() { # LACKING REQUIREMENTS
    local header version
    version=$(python_version "$environment/bin/python")
    [[ $1 == *fairseq* && $version != 3.12 ]] || return 0 # the package index has a wheel for 3.12
    command -v "${CXX:-g++}" >/dev/null ||
        give_up "there is no C++ compiler (${CXX:-g++}), which building fairseq needs: install it (Debian, Ubuntu: apt install g++)"
    header=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [[ -e $header ]] ||
        give_up "there is no $header, which building fairseq needs: install it (Debian, Ubuntu: apt install python$version-dev)"
}

install_requirements() { # EXTRAS
    local extras="$*"
    pins=$log.pins
    if [[ -n $own ]]; then
        environment_py sweep
        grep -v '^#' "$checkout/constraints.txt" >"$pins"
    else
        environment_py pins "$@" >"$pins"
    fi
    install 'the build tools' pip 'setuptools>=64' wheel cython numpy
    install torch 'torch>=2.1'
    install 'fairseq (which takes some minutes if it is built from source)' --no-build-isolation \
        'fairseq-fixed>=0.12.3.1'
    install 'this package' --no-build-isolation --editable "$checkout${extras:+[${extras// /,}]}"
}

install() { # WHAT PIP-ARGUMENTS
    local what=$1
    shift
    say "installing $what ..."
    # PIP_CONSTRAINT, unlike --constraint, also applies where pip builds a package in isolation.
    PIP_CONSTRAINT=$(file_url "$pins") "$environment/bin/python" -m pip install --no-input \
        --disable-pip-version-check --retries 1 --timeout 30 "$@" </dev/null >>"$log" 2>&1 ||
        explain_failure "installing $what"
}

# pip splits PIP_CONSTRAINT at spaces, so they are escaped.
file_url() {
    [[ -n $1 ]] && printf 'file://%s' "${1// /%20}"
}

explain_failure() { # WHAT
    local what="$1 failed"
    if grep -qE 'No space left on device|Errno 28|Disk quota exceeded' "$log"; then
        give_up "$what, because the disk is full: free some space (about 3 GiB are needed; more for a torch with CUDA); see $log"
    elif grep -qE 'Failed (to build|building)|error: command .* failed' "$log"; then
        give_up "$what, because a package could not be built; see $log"
    elif grep -qE 'connection broken|Connection ?Error|Max retries|timed out|ProxyError|from versions: none' "$log"; then
        give_up "$what, because the package index is out of reach: check the network, proxy and index settings (pip config list); see $log"
    fi
    give_up "$what: $(tail -n 1 "$log"); see $log"
}

environment_py() {
    "$environment/bin/python" "$checkout/recipes/environment.py" "$@" 2>>"$log" ||
        { [[ $1 == linked ]] && return 1; give_up "$environment/bin/python recipes/environment.py $* failed; see $log"; }
}

say() {
    printf 'set-up: %s\n' "$*" >&2
}

give_up() {
    say "$*"
    exit 1
}

# Runs a step of a recipe in Python. What only shows or explains something needs no set-up.
engine() { # STEP ARGUMENTS
    local word quick=''
    for word in "$@"; do
        [[ $word != -- ]] || break
        [[ $word != --dry-run && $word != --help && $word != -h && $1 != new ]] || quick=yes
    done
    if [[ -z $quick ]]; then
        set_up recipes
    elif [[ -z ${VIRTUAL_ENV:-} && -x $checkout/.venv/bin/python ]]; then
        PATH=$checkout/.venv/bin:$PATH
    fi
    POSATTN_PYTHON=$(command -v python || command -v python3)
    export POSATTN_PYTHON PYTHONPATH=$checkout${PYTHONPATH:+:$PYTHONPATH} PYTHONWARNINGS=ignore
    exec "$POSATTN_PYTHON" -m fairseq_posattn.cli.recipe "$@"
}
