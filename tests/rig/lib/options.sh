# SPDX-License-Identifier: BSD-3-Clause
# Command line of ./vm.
# shellcheck shell=bash

VERBS="setup demo check bench shell run clean"
KERNELS="6.12 7.3"

usage() {
    cat <<'END'
usage: ./vm [OPTIONS] VERB [OPTIONS]

  setup        make everything ready: root file system, kernels, build
  demo         Open MPI over implicit ODP in the guest, next to btl tcp
  check        all tests: unit tests, then the guest's tests on both kernels
  bench        the benchmarks in the guest
  shell        an interactive root shell in the guest
  run CMD...   a shell command line in the guest, as root, in this folder; ends with its status
  clean        delete the caches (root file system, kernels, builds)

  --kernel 6.12|7.3   the guest's kernel (default 7.3; check: both)
  --cpus N            the guest's CPUs (default 2)
  --mem SIZE          the guest's memory, in MiB or with M or G (default 2G)
  --timeout SECONDS   longest run of the command, 0 = no limit (default 1800; shell: no limit)
  --no-module         boot without loading rdma_odp
  --no-build          use the last successful build as it is
  --verbose           say every step; show the guest's console
  --help              this text

Exit status: the command's; 1 a step failed; 2 wrong usage; 125 the guest failed.
Caches: $XDG_CACHE_HOME/implicit-odp (default ~/.cache). Debian mirror: the host's, or $ODP_MIRROR.
END
}

# bad OPTION VALUE ALLOWED
bad() { die "$1 '$2': must be $3 (./vm --help shows all options)" 2; }

# One option at a time: option NAME [VALUE]; sets USED to the number of words taken, 0 if not ours
option() {
    local name=$1 value=${2-} have=$(($# > 1))
    USED=2
    if [[ $name == --*=* ]]; then
        value=${name#*=} name=${name%%=*} have=1 USED=1
    fi
    case $name in
    --kernel | --cpus | --mem | --timeout)
        if ((!have)); then die "$name needs a value (./vm --help shows all options)" 2; fi
        ;;
    esac
    case $name in
    --kernel)
        [[ " $KERNELS " == *" $value "* && $value != *" "* ]] || bad "$name" "$value" "6.12 or 7.3"
        KERNEL=$value
        ;;
    --cpus)
        [[ $value =~ ^([1-9]|[1-5][0-9]|6[0-4])$ ]] || bad "$name" "$value" "1 to 64"
        CPUS=$value
        ;;
    --mem)
        [[ $value =~ ^([1-9][0-9]{0,6})([MG]?)$ ]] || bad "$name" "$value" "a size like 2048, 2048M or 2G"
        MEM=${BASH_REMATCH[1]}
        if [[ ${BASH_REMATCH[2]} == G ]]; then MEM=$((MEM * 1024)); fi
        ((MEM >= 512 && MEM <= 65536)) || bad "$name" "$value" "512M to 64G"
        ;;
    --timeout)
        [[ $value =~ ^(0|[1-9][0-9]{0,6})$ ]] || bad "$name" "$value" "seconds, 0 to 9999999 (0 = no limit)"
        TIMEOUT=$value
        ;;
    --no-module) MODULE=0 USED=1 ;;
    --no-build) BUILD=0 USED=1 ;;
    --verbose) VERBOSE=1 USED=1 ;;
    --help | -h)
        usage
        exit 0
        ;;
    *) USED=0 ;;
    esac
    if ((USED)) && [[ $1 == --no-*=* || $1 == --verbose=* ]]; then
        die "$name takes no value (./vm --help shows all options)" 2
    fi
}

# Sets VERB, COMMAND (run's words) and the options' variables.
parse() {
    VERB='' COMMAND=() KERNEL='' CPUS=2 MEM=2048 TIMEOUT='' MODULE=1 BUILD=1 VERBOSE=0
    while (($#)); do
        if [[ $1 == -- && $VERB == run ]]; then
            shift
            COMMAND=("$@")
            break
        elif [[ $1 == -* ]]; then
            option "$@"
            if ((!USED)); then
                die "unknown option '$1' (./vm --help shows all options)" 2
            fi
            shift "$USED"
        elif [[ -z $VERB ]]; then
            [[ " $VERBS " == *" $1 "* && $1 != *" "* ]] || bad "verb" "$1" "one of: $VERBS"
            VERB=$1
            shift
        elif [[ $VERB == run ]]; then
            COMMAND=("$@")
            break
        else
            die "'$1' after '$VERB': $VERB takes options only (./vm --help shows all options)" 2
        fi
    done
    if [[ -z $VERB ]]; then
        usage >&2
        exit 2
    fi
    if [[ $VERB == run ]] && ((${#COMMAND[@]} == 0)); then
        die "run needs a command, e.g.: ./vm run ibv_devinfo -v" 2
    fi
}
