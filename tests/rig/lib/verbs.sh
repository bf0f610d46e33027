# SPDX-License-Identifier: BSD-3-Clause
# The verbs of ./vm; check has a file of its own.
# shellcheck shell=bash

# ready SERIES... : image, kernels and build are there
ready() {
    local series
    need_image
    for series in "$@"; do need_kernel "$series"; done
    need_build "$@"
}

# in_guest DEFAULT_TIMEOUT COMMAND
in_guest() {
    KERNEL=${KERNEL:-7.3}
    TIMEOUT=${TIMEOUT:-$1}
    ready "$KERNEL"
    guest "$KERNEL" 0 "$2"
}

# in_guest_if_there DEFAULT_TIMEOUT PROGRAM : a program of the checkout
in_guest_if_there() {
    if [[ ! -x $CHECKOUT/$2 ]]; then
        die "$2 is missing in $CHECKOUT: there is nothing that $VERB could run"
    fi
    in_guest "$1" "./$2"
}

verb_setup() {
    local series
    read -ra series <<<"${KERNEL:-$KERNELS}"
    ready "${series[@]}"
    say "ready: kernels $(cat "$IMAGE"/kernel/* | xargs), build in $BUILD_DIR"
}

verb_run() { in_guest 1800 "${COMMAND[*]}"; }
verb_demo() { in_guest_if_there 600 tests/guest/demo; }
verb_bench() { in_guest_if_there 3600 perf/bench; }

verb_shell() {
    if [[ ! -t 0 || ! -t 1 ]]; then
        die "shell needs a terminal; without one: ./vm run CMD" 2
    fi
    KERNEL=${KERNEL:-7.3}
    TIMEOUT=${TIMEOUT:-0}
    ready "$KERNEL"
    say "a root shell on kernel $RELEASE; exit or Ctrl-D ends the guest"
    guest "$KERNEL" 1 ''
}

verb_clean() {
    local lock fd
    for lock in "$CACHE"/*.lock "$CACHE"/{image,build}/*.lock "$CACHE"/run/*/ "$CACHE"/build/*/install/*/; do
        if [[ ! -e $lock ]]; then continue; fi
        exec {fd}<"$lock"
        flock -n "$fd" || die "another ./vm is using $CACHE: end it first"
        exec {fd}<&-
    done
    say "deleting $CACHE ($(du -sh "$CACHE" | cut -f1))"
    rm -rf --one-file-system "$CACHE"
}
