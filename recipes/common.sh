# shellcheck shell=bash
# Functions that recipes and tests share. Source this file under `set -euo pipefail`:
#
#   . recipes/common.sh
#   set_up [EXTRA ...]     # such as `set_up` or `set_up test`
#
# set_up puts a `python` with fairseq, this package and the extras in PATH. Without an active environment, it creates
# .venv in the checkout, with the exact versions of constraints.txt. In an active environment (VIRTUAL_ENV, or a
# conda environment other than base), it installs only the missing requirements of pyproject.toml. A stamp in the
# environment makes later calls return at once. PYTHON names the Python with which .venv is created.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

set_up() {
    local environment own='' log='' uv='' stamp key extras_there=''
    choose_environment
    check_chosen_python
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
        give_up "the active environment $environment has no bin/python; deactivate it (unset VIRTUAL_ENV)"
    fi
}

# The Python of an existing environment cannot be changed, so a different PYTHON is refused.
check_chosen_python() {
    local wanted there remedy='deactivate this environment'
    [[ -n ${PYTHON:-} && -x $environment/bin/python && ! -e $environment/.begun ]] || return 0
    wanted=$(python_version "$PYTHON") || return 0 # find_python explains it, if it is needed
    there=$(python_version "$environment/bin/python") || return 0
    [[ -z $own ]] || remedy="delete $environment, so that it is created again"
    [[ $wanted == "$there" ]] ||
        give_up "PYTHON=$PYTHON is Python $wanted, but $environment has Python $there; $remedy, or unset PYTHON"
}

# Line 1 of the stamp is a checksum of the requirements, line 2 names the installed extras.
stamp_key() {
    (cd "$checkout" && { pwd -P && cat setup.py pyproject.toml constraints.txt; } | sha256sum)
}

stamped() {
    local old='' extras='' extra
    [[ -x $environment/bin/python && -f $stamp ]] || return 1
    { read -r old && read -r extras; } <"$stamp" || true
    [[ $old == "$key" ]] || return 1
    extras_there=$extras
    for extra; do
        [[ " $extras " == *" $extra "* ]] || return 1
    done
}

# Concurrent commands must not install into the same environment at the same time.
take_turn() {
    flock --nonblock "$set_up_lock" 2>/dev/null && return
    say 'waiting for the set-up of another run to end'
    flock "$set_up_lock" || say 'this file system does not support locks, so the set-up continues without one'
}

install_all() {
    local remedy='deactivate this environment or use one with such a Python'
    log=$(mktemp "${TMPDIR:-/tmp}/set-up.XXXXXX" 2>/dev/null) ||
        give_up "cannot write to ${TMPDIR:-/tmp}; free some space there or set TMPDIR"
    if [[ -n $own ]]; then
        make_environment
        remedy="delete $environment"
    fi
    check_python_version "$environment/bin/python" "$remedy"
    rm -f "$stamp" 2>>"$log" || true
    find_uv
    install_requirements "$@"
    { printf '%s\n%s\n' "$key" "$extras_there $*" >"$stamp"; } 2>>"$log" || true # a read-only environment is checked each time
    rm -f "$log" "$log".* "$environment/.begun"
}

# An environment that an interrupted set-up has left incomplete is created again.
make_environment() {
    local python
    if [[ -e $environment/.begun ]] || ! has_pip; then
        find_python
        check_space 3
        say "creating $environment ($("$python" -c 'import platform; print("Python", platform.python_version())'))"
        "$python" -m venv --clear "$environment" >>"$log" 2>&1 || explain_failure "creating $environment"
    fi
    touch "$environment/.begun"
}

has_pip() {
    "$environment/bin/python" -m pip --version >>"$log" 2>&1
}

# uv installs in parallel and from a cache; if it is not available, pip is used.
find_uv() {
    if ! uv=$(PATH=$environment/bin:$PATH command -v uv); then
        has_pip || give_up "the active environment $environment has neither pip nor uv; run python -m ensurepip in it"
        packages install --quiet -c "$checkout/constraints.txt" uv >>"$log" 2>&1 || true
        uv=$(PATH=$environment/bin:$PATH command -v uv) || say 'uv cannot be installed, so pip is used, which takes some minutes'
    fi
}

packages() { # ARGUMENTS of `uv pip` or of pip
    if [[ -n $uv ]]; then
        (take_settings_of_pip && UV_PYTHON=$environment/bin/python "$uv" pip "$@")
    else
        "$environment/bin/python" -m pip "$@"
    fi </dev/null
}

# uv ignores pip's settings, so pass it index, certificate and constraints, unless UV_* variables are set.
take_settings_of_pip() {
    local settings pair name value
    settings=$("$environment/bin/python" -m pip config list 2>/dev/null | sort -r) || true # :env: goes last
    for pair in UV_DEFAULT_INDEX=index-url UV_INDEX=extra-index-url UV_FIND_LINKS=find-links \
        UV_CONSTRAINT=constraint UV_NO_INDEX=no-index UV_INSECURE_HOST=trusted-host SSL_CERT_FILE=cert; do
        name=${pair%%=*}
        value=$(sed -n "s/^[^=]*\.${pair#*=}='\(.*\)'\$/\1/p" <<<"$settings" | tail -n 1)
        [[ -z $value || -n ${!name:-} ]] || export "$name=${value//\\n/ }"
    done
    # Like pip, choose the best version of all indexes.
    export UV_INDEX_STRATEGY=${UV_INDEX_STRATEGY:-unsafe-best-match}
    [[ -z $backend || -n ${UV_TORCH_BACKEND:-} ]] || export UV_TORCH_BACKEND=$backend
}

install_requirements() { # EXTRAS
    local present plan compiled='' backend=''
    present=$(packages freeze 2>>"$log" | tr 'A-Z_' 'a-z-') || true
    choose_versions
    requirements "$@" >"$log.wanted"
    if grep -q '^fairseq-fixed' "$log.wanted" && [[ $(python_version "$environment/bin/python") == 3.13 || $(uname -sm) != 'Linux x86_64' ]]; then
        check_compiler
        compiled='cython numpy'
        say 'fairseq has no wheel for this Python; compiling it takes about three minutes on two idle cores, unless it is cached'
    fi
    plan=$(planned)
    if [[ $plan == *nvidia-* ]] && no_driver && cpu_builds_are_in_reach; then
        backend=cpu plan=$(planned)
    fi
    case $plan in
    'all that there is') tell_size 6 'takes up to 5.3 GB' ;;
    *nvidia-*) tell_size 6 'with CUDA takes 5.3 GB' ;;
    *'+ torch=='*) tell_size 3 'without CUDA takes 2.1 GB' ;;
    *' + '*) check_space 1 ;;
    esac
    # shellcheck disable=SC2086 # words
    [[ $present == *setuptools==* && $present == *wheel==* && -z $compiled ]] || install 'the build tools' 'setuptools>=64' wheel $compiled
    [[ -z $compiled ]] || install torch 'torch>=2.1'
    if [[ $plan != *'no changes'* ]]; then
        install 'torch, fairseq and what they need' --no-build-isolation -r "$log.wanted"
        compile_fairseq
    fi
    is_linked || install 'this package' --no-deps --no-build-isolation --editable "$checkout"
}

# Compile fairseq now, because Python prints warnings about its code when it first imports it.
compile_fairseq() {
    "$environment/bin/python" -W ignore -m compileall -q "$environment"/lib/python*/site-packages/fairseq >>"$log" 2>&1 || true
}

# Print the packages that uv would install. pip would download them first, so assume that it installs all.
planned() {
    if [[ -n $uv ]]; then
        packages install --dry-run -c "$log.pins" -r <(grep -v '^fairseq-fixed' "$log.wanted") 2>&1 || true
    elif [[ $present != *torch==* ]]; then
        printf 'all that there is\n'
    fi
}

no_driver() {
    [[ -n $uv && ! -e /proc/driver/nvidia/version ]] && ! command -v nvidia-smi >/dev/null
}

cpu_builds_are_in_reach() {
    "$environment/bin/python" -c "from urllib.request import urlopen
urlopen('https://download.pytorch.org/whl/cpu/torch/', timeout=5)" 2>>"$log"
}

tell_size() { # GIB WHAT
    check_space "$1"
    say "torch $2 on the disk; it is downloaded unless it is cached"
}

# The requirements of pyproject.toml, without fairseq if it is already installed under another name.
requirements() { # EXTRAS
    "$environment/bin/python" - "$checkout/pyproject.toml" "$present" "$@" 2>>"$log" <<'PYTHON' ||
import sys
import tomllib

path, present, *extras = sys.argv[1:]
with open(path, "rb") as file:
    project = tomllib.load(file)["project"]
optional = project.get("optional-dependencies", {})
wanted = project["dependencies"] + [line for extra in extras for line in optional[extra]]
lines = []
for line in wanted:  # an extra may include others
    own = line.startswith(project["name"] + "[")
    included = line[:-1].partition("[")[2].split(",") if own else []
    wanted += [other for extra in included for other in optional[extra]]
    lines += [] if own else [line]
fairseq = any(name in present for name in ("ve-fairseq==", "fairseq-fixed=="))
print(*(line for line in lines if not (fairseq and "fairseq" in line)), sep="\n")
PYTHON
        give_up "cannot read $checkout/pyproject.toml; see $log"
}

is_linked() {
    local found
    found=$(cd / && "$environment/bin/python" -c 'import fairseq_posattn as p; print(*p.__path__)' 2>>"$log") || return 1
    [[ $found -ef $checkout/fairseq_posattn ]]
}

# Exact versions are installed into .venv; packages of an active environment are not changed.
choose_versions() {
    local kept=$present
    [[ -z $own ]] || kept=''
    awk 'NR == FNR { sub(/[ @=].*/, ""); kept[$0]; next }
        !/^#/ { name = $0; sub(/==.*/, "", name); if (!(name in kept)) print }' \
        <(printf '%s\n' "$kept") "$checkout/constraints.txt" >"$log.pins"
}

# Set `python` to the first suitable Python; the default python3 is preferred.
find_python() {
    local candidate version found='' without_venv=''
    if [[ -n ${PYTHON:-} ]]; then
        command -v "$PYTHON" >/dev/null || give_up "PYTHON=$PYTHON is not a program; name an installed Python"
        check_python_version "$PYTHON" 'set PYTHON to such a Python'
    fi
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.12 python3.11 python3.13; do
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
        give_up "$without_venv has no venv module; install it (Debian, Ubuntu: apt install python$version-venv)"
    fi
    found=${found:+Python ${found#, }}
    give_up "found ${found:-no python3}, need Python 3.11 to 3.13; install one (Debian, Ubuntu: apt install python3.12 python3.12-venv) or set PYTHON=/path/to/python"
}

python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

right_version() {
    [[ $1 == 3.11 || $1 == 3.12 || $1 == 3.13 ]]
}

check_python_version() { # PYTHON REMEDY
    local version
    version=$(python_version "$1") || give_up "$1 does not run; name another Python with PYTHON"
    right_version "$version" || give_up "found Python $version ($1), need Python 3.11 to 3.13; $2"
}

check_space() { # GIB
    local folder free need=$1
    for folder in "$(dirname "$environment")" "${TMPDIR:-/tmp}"; do
        free=$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }') || continue
        ((free >= need * 1024)) ||
            give_up "the disk is full: $folder has $free MiB free, but about $need GiB are needed; free some space"
        need=1
    done
}

check_compiler() {
    local header version
    version=$(python_version "$environment/bin/python")
    command -v "${CXX:-g++}" >/dev/null ||
        give_up "there is no C++ compiler (${CXX:-g++}), which building fairseq needs; install it (Debian, Ubuntu: apt install g++)"
    header=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [[ -e $header ]] ||
        give_up "there is no $header, which building fairseq needs; install it (Debian, Ubuntu: apt install python$version-dev)"
}

# On a terminal, uv or pip show their own progress; otherwise, a line is printed from time to time.
install() { # WHAT ARGUMENTS
    local what=$1 begin=$SECONDS
    shift
    say "installing $what ..."
    if [[ -t 2 ]]; then
        packages install -c "$log.pins" "$@" >&2 || give_up "installing $what failed, for the reason above"
    else
        packages install -c "$log.pins" "$@" 8> >(show_life) >>"$log" 2>&1 || explain_failure "installing $what"
    fi
}

# Print a line twice a minute, until the other end of standard input is closed.
show_life() {
    while true; do
        read -rt 30 && continue
        (($? > 128)) || break # not a timeout
        say "still installing $what, for $((SECONDS - begin)) s"
    done
}

explain_failure() { # WHAT
    local what="$1 failed"
    if grep -qE 'No space left on device|Errno 28|Disk quota exceeded' "$log"; then
        give_up "$what, because the disk is full; free some space (about 3 GiB, or 6 GiB with CUDA), and see $log"
    elif grep -qE 'Failed (to build|building)|error: command .* failed' "$log"; then
        give_up "$what, because a package could not be built; see $log"
    elif grep -qiE 'connection broken|connect(ion)? ?error|Max retries|timed out|ProxyError|from versions: none|error sending request' "$log"; then
        give_up "$what, because the package index is unreachable; check network, proxy and index settings (pip config list), and see $log"
    fi
    give_up "$what ($(tail -n 1 "$log")); see $log"
}

say() {
    printf 'set-up: %s\n' "$*" >&2
}

give_up() {
    say "$*"
    exit 1
}

# Run a step of a recipe in Python. Help and dry runs need no set-up.
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
