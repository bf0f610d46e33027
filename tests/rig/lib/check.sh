# SPDX-License-Identifier: BSD-3-Clause
# ./vm check: every test there is, one line each on stdout, the sum as the last line.
# shellcheck shell=bash

PASSED=0 FAILED=0 SKIPPED=0

# phase TITLE COMMAND... : COMMAND prints protocol lines (ok, not ok, skip) among others. A phase
# fails as a whole when it ran no test, or ended badly without any "not ok".
phase() {
    local title=$1 line ok=0 bad=0 skip=0 status=0 results out tee start=$SECONDS
    shift
    printf '# %s\n' "$title"
    results=$(mktemp "$CACHE/run/results.XXXXXX")
    SCRATCH+=("$results")
    exec {out}> >(exec tee "$results")
    tee=$!
    "$@" >&"$out" || status=$?
    exec {out}>&-
    wait "$tee"
    while IFS= read -r line; do
        case $line in
        "ok "*) ((++ok)) ;;
        "not ok "*) ((++bad)) ;;
        "skip "*) ((++skip)) ;;
        esac
    done < <(tr -d '\r' <"$results")
    rm -f "$results"
    if ((ok + bad + skip == 0)); then
        printf 'not ok %s: no test was run (exit status %d)\n' "$title" "$status"
        ((++bad))
    elif ((status && bad == 0)); then
        printf 'not ok %s: ended with status %d\n' "$title" "$status"
        ((++bad))
    fi
    printf '# %s: %d passed, %d failed, %d skipped (%d s)\n' \
        "$title" "$ok" "$bad" "$skip" $((SECONDS - start))
    ((PASSED += ok, FAILED += bad, SKIPPED += skip))
}

# unit_tests KIND [CONFIGURE OPTION...] : native, in the chroot
unit_tests() {
    local log=$CACHE/log/unit-$1-${WORK##*/}.log
    if ! DEST='' in_chroot "unit tests ($1)" "$log" "$CHECKOUT/tests/rig/chroot/unit" "$@"; then
        tail -n 25 "$log" | sed 's/^/    /' >&2
        say "unit tests ($1) did not end well; the whole log: $log"
    fi
    grep -aE '^(ok|not ok|skip) ' "$log"
}

# Isolated and waited for as a background job, so that a signal to us ends it with all its guests.
rig_tests() {
    local status=0
    "${ISOLATE[@]}" env ODP_RIG_INSTALL="$INSTALL" "$RIG/selftest" "$1" </dev/null &
    CHILD=$!
    wait "$CHILD" || status=$?
    CHILD=
    return "$status"
}

guest_tests() { guest "$1" 0 tests/guest/run; }

verb_check() {
    local series kernels
    read -ra kernels <<<"${KERNEL:-$KERNELS}"
    TIMEOUT=${TIMEOUT:-1500}
    HOLD_BUILD=1
    ready "${kernels[@]}"
    phase "unit tests" unit_tests plain
    phase "unit tests, ASan and UBSan" unit_tests sanitized --enable-sanitizers \
        CXXFLAGS="-O1 -g1" CFLAGS="-O1 -g1"
    if ((BUILD)); then unlock; fi
    phase "the rig itself" rig_tests "${kernels[-1]}"
    for series in "${kernels[@]}"; do
        phase "guest tests, kernel $series" guest_tests "$series"
    done
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    ((FAILED == 0))
}
