#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/tools.sh CASE: the distribution's own RDMA programs, unmodified, on the device in
# ODP_TEST_DEVICE. Exit status: 0 passed, 77 skipped with the reason on the last line.
set -uo pipefail

DEVICE=${ODP_TEST_DEVICE:-odp0}
PORT=18515
DIR=$(mktemp -d) || exit 1
# Ends what is still there, the server of a failed pair in particular.
cleanup() {
    local pids
    mapfile -t pids < <(jobs -p)
    if ((${#pids[@]})); then kill "${pids[@]}" 2>/dev/null; fi
    rm -rf "$DIR"
}
trap cleanup EXIT

fail() {
    echo "$*"
    exit 1
}
skip() {
    echo "$*"
    exit 77
}
need() {
    local program
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then skip "$program is not installed"; fi
    done
}

listening() { grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf '%04X' "$PORT") [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6; }

# pair PROGRAM ARG...: server and client on this host; both must end with 0.
pair() {
    local server tenths=100 status
    PORT=$((PORT + 1))
    "$@" -d "$DEVICE" -p "$PORT" >"$DIR/server" 2>&1 &
    server=$!
    until listening; do
        if ((tenths-- == 0)) || ! kill -0 "$server" 2>/dev/null; then
            cat "$DIR/server"
            fail "$*: the server doesn't listen"
        fi
        sleep 0.1
    done
    timeout 60 "$@" -d "$DEVICE" -p "$PORT" localhost >"$DIR/client" 2>&1
    status=$?
    if ((status != 0)); then
        cat "$DIR/server" "$DIR/client"
        fail "$*: the client ended with $status"
    fi
    wait "$server"
    status=$?
    if ((status != 0)); then
        cat "$DIR/server" "$DIR/client"
        fail "$*: the server ended with $status"
    fi
    cat "$DIR/client"
}

# pingpong PROGRAM ARG...: the number of bytes it reports must be right. -c complains about wrong
# contents, but ends with 0 all the same.
pingpong() {
    local size=4096 rounds=1000 previous='' word
    for word in "$@"; do
        case $previous in
        -s) size=$word ;;
        -n) rounds=$word ;;
        esac
        previous=$word
    done
    pair "$@" "${GID[@]}"
    if grep -h 'invalid data' "$DIR/server" "$DIR/client"; then fail "$*: wrong data"; fi
    grep -q "^$((size * rounds * 2)) bytes in" "$DIR/client" ||
        fail "$*: doesn't report $((size * rounds * 2)) bytes"
}

# perf PROGRAM ARG...: a line of results for that size. (Not the figures: perftest takes them from
# the time stamp counter, which an emulated guest on a busy host may not read as time.)
perf() {
    local size=8 previous='' word # the size of an atomic
    for word in "$@"; do
        if [[ $previous == -s ]]; then size=$word; fi
        previous=$word
    done
    pair "$@" -F "${PERF_GID[@]}"
    awk -v size="$size" '$1 == size && $2 > 0 && NF >= 4 { good = 1 } END { exit !good }' \
        "$DIR/client" || fail "$*: no line of results for $size bytes"
}

GID=() PERF_GID=()
if [[ $(cat "/sys/class/infiniband/$DEVICE/ports/1/link_layer" 2>/dev/null) == Ethernet ]]; then
    GID=(-g 1) PERF_GID=(-x 1)
fi

caps() { ibv_devinfo -v -d "$DEVICE"; }
need_implicit() {
    caps | grep -q ODP_SUPPORT_IMPLICIT || skip "$DEVICE has no implicit ODP"
}

case_devinfo() {
    need ibv_devinfo
    caps >"$DIR/caps" || fail "ibv_devinfo -v -d $DEVICE failed"
    cat "$DIR/caps"
    grep -q 'state:.*PORT_ACTIVE' "$DIR/caps" || fail "the port isn't active"
    grep -q ODP_SUPPORT_IMPLICIT "$DIR/caps" || fail "no IMPLICIT among the ODP capabilities"
    awk '/rc_odp_caps:/ { on = 1; next } /_odp_caps:/ { on = 0 } on' "$DIR/caps" >"$DIR/rc"
    local what
    for what in SEND RECV WRITE READ; do
        grep -q "SUPPORT_$what\$" "$DIR/rc" || fail "no ODP for RC $what"
    done
}

SIZES=(1 64 4096 65536 1048576)

rc_pingpong() { # ARG...
    need ibv_rc_pingpong
    local size
    for size in "${SIZES[@]}"; do
        pingpong ibv_rc_pingpong -c -s "$size" -n 20 "$@"
    done
}
case_rc_pingpong() { rc_pingpong; }
case_rc_pingpong_events() {
    SIZES=(64 65536)
    rc_pingpong -e
}
case_rc_pingpong_odp() { rc_pingpong -o; }
case_rc_pingpong_implicit() {
    need_implicit
    rc_pingpong -O
    SIZES=(4096)
    rc_pingpong -O -e
}
case_rc_pingpong_new_send() { # the extended post API (ibv_wr_post(3))
    SIZES=(64 65536)
    rc_pingpong -N
}

case_ud_pingpong() {
    need ibv_ud_pingpong
    pingpong ibv_ud_pingpong -s 64 -n 50
    pingpong ibv_ud_pingpong -s 2048 -n 50
    pingpong ibv_ud_pingpong -s 1024 -n 50 -e
}

case_perf_write() {
    need ib_write_bw ib_write_lat
    perf ib_write_bw -s 65536 -n 100
    perf ib_write_lat -s 8 -n 100
}
case_perf_read() {
    need ib_read_bw ib_read_lat
    perf ib_read_bw -s 65536 -n 100
    perf ib_read_lat -s 8 -n 100
}
case_perf_send() {
    need ib_send_bw ib_send_lat
    perf ib_send_bw -s 65536 -n 100
    perf ib_send_lat -s 8 -n 100
    perf ib_send_bw -s 65536 -n 100 -e
}
case_perf_odp() {
    need ib_write_bw
    caps | grep -q 'ODP_SUPPORT$' || skip "$DEVICE has no on-demand paging"
    perf ib_write_bw -s 65536 -n 100 --odp
}
case_perf_atomic() {
    need ib_atomic_lat
    if caps | grep -q 'atomic_cap:.*ATOMIC_NONE'; then skip "$DEVICE has no atomics"; fi
    perf ib_atomic_lat -A FETCH_AND_ADD -n 100
}

if [[ $# -ne 1 ]] || ! declare -F "case_$1" >/dev/null; then
    echo "usage: tests/guest/tools.sh CASE; cases:"
    declare -F | sed -n 's/^declare -f case_/  /p'
    exit 2
fi
"case_$1"
