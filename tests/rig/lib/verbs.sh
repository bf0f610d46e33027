# SPDX-License-Identifier: BSD-3-Clause
# The verbs of ./vm.
# shellcheck shell=bash

ready() {
    need_image
    need_build
}

verb_setup() {
    ready
    say "ready: $(cat "$IMAGE"/boot/*/release | xargs), build in $BUILD_DIR"
}

verb_run() {
    ready
    TIMEOUT=${TIMEOUT:-1800}
    guest "${KERNEL:-7.3}" 0 "${COMMAND[*]}"
}

verb_shell() {
    if [[ ! -t 0 || ! -t 1 ]]; then
        die "shell needs a terminal; for scripts: ./vm run CMD" 2
    fi
    ready
    TIMEOUT=${TIMEOUT:-0}
    guest "${KERNEL:-7.3}" 1 ''
}

verb_demo() {
    ready
    TIMEOUT=${TIMEOUT:-600}
    guest "${KERNEL:-7.3}" 0 tests/guest/demo
}

verb_bench() {
    if [[ ! -x $CHECKOUT/perf/bench ]]; then
        die "perf/bench is missing in $CHECKOUT: there is nothing to run"
    fi
    ready
    TIMEOUT=${TIMEOUT:-3600}
    guest "${KERNEL:-7.3}" 0 perf/bench
}

verb_clean() {
    die "not yet" 1
}

verb_check() {
    die "not yet" 1
}
