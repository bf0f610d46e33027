#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# UCX's own programs over rc_odp. A test is a function; the list tests/ucx/tests.list names it.
#
#   ODP_DEVICE  RDMA device (odp0)

set -u -o pipefail

# ucx_perftest is an MPI program here, too, and leaves segments of btl sm in /dev/shm.
export OMPI_MCA_btl=self

device=${ODP_DEVICE:-odp0}:1

# shellcheck source=tests/mpi/env.sh
. "$(dirname "$0")/../mpi/env.sh"

fail() { echo "$1: $2" >&2; exit 1; }

work=$(mktemp -d) || exit 1
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT

# free_port: one that nobody listens at, the next at each call.
port=$((20000 + RANDOM % 10000))
free_port() {
    while port=$((port + 1)); { : < "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null; do :; done
}

# pair NAME ARGUMENTS...: ucx_perftest with itself; both have to end well, and the client has to
# have measured something.
pair() {
    local name=$1 server tries=0 rate
    shift
    free_port
    ucx_perftest -P 0 -p "$port" "$@" > "$work/server" 2>&1 &
    server=$!
    # the server listens soon, and says so nowhere
    until ss -Hltn "sport = :$port" | grep -q .; do
        kill -0 $server 2> /dev/null || { cat "$work/server"; fail "$name" "the server ended"; }
        [ $((tries += 1)) -le 300 ] || fail "$name" "the server doesn't listen after 30 s"
        read -r -t 0.1 < <(:) || true
    done
    if ! ucx_perftest -P 0 -p "$port" 127.0.0.1 "$@" -f > "$work/client" 2>&1; then
        cat "$work/client" "$work/server"
        fail "$name" "the client failed"
    fi
    wait $server || { cat "$work/server" "$work/client"; fail "$name" "the server failed"; }
    if grep -E 'ERROR|WARN|Assertion' "$work/client" "$work/server"; then
        fail "$name" "an error was logged"
    fi
    rate=$(tail -n 1 "$work/client")
    [[ $rate =~ [0-9]\.[0-9] ]] || fail "$name" "no result: $rate"
    echo "$name: $rate"
}

info() {
    ucx_info -d > "$work/devices" 2>&1 || fail info "ucx_info -d failed"
    grep -q 'Transport: rc_odp' "$work/devices" || { cat "$work/devices"; fail info "no rc_odp"; }
    grep -q "Device: $device" "$work/devices" || { cat "$work/devices"; fail info "no $device"; }
    sed -n '/rc_odp/,/^$/p' "$work/devices"
    ucx_info -cf > "$work/config" 2>&1 || fail info "ucx_info -cf failed"
    for name in SEG_SIZE TX_QUEUE_LEN TIMEOUT CONNECT_TIMEOUT GID_INDEX; do
        grep -q "^UCX_RC_ODP_$name=" "$work/config" || fail info "UCX_RC_ODP_$name isn't told"
    done
}

# Out of its limits: said with the value and the limits.
bad_value() {
    local out
    out=$(UCX_RC_ODP_RETRY_COUNT=9 UCX_TLS=rc_odp timeout 60 ucx_info -w -u t 2>&1)
    grep -q 'UCX_RC_ODP_RETRY_COUNT=9 is out of its limits, 0 to 7' <<< "$out" ||
        { echo "$out"; fail bad_value "value and limits aren't told"; }
}

# What the plugin wasn't built for is left alone, with a line that says so.
version() {
    local out
    command -v gcc > /dev/null || { echo "no compiler in the guest"; exit 77; }
    cat > "$work/ucp.c" <<'END'
void ucp_get_version(unsigned *major, unsigned *minor, unsigned *patch)
{
    *major = 1; *minor = 97; *patch = 3;
}
END
    cat > "$work/user.c" <<'END'
extern int uct_query_components(void **components, unsigned *count);
int main(void)
{
    void *components;
    unsigned count;
    return uct_query_components(&components, &count);
}
END
    gcc -shared -fPIC -Wl,-soname,libucp.so.0 -o "$work/libucp.so.0" "$work/ucp.c" &&
        gcc -o "$work/user" "$work/user.c" -Wl,--no-as-needed -l:libuct.so.0 -l:libucs.so.0 ||
        fail version "the test doesn't build"
    out=$(LD_LIBRARY_PATH=$work "$work/user" 2>&1) || { echo "$out"; fail version "UCX failed"; }
    grep -q 'built for UCX 1.18, but UCX here is 1.97.3' <<< "$out" ||
        { echo "$out"; fail version "the versions aren't told"; }
}

uct() {
    local size
    for size in 8 200; do
        pair "am_lat short $size" -x rc_odp -d "$device" -t am_lat -D short -s $size -n 500 -w 10
        pair "put_lat short $size" -x rc_odp -d "$device" -t put_lat -D short -s $size -n 500 -w 10
    done
    for size in 8 8000; do
        pair "am_lat bcopy $size" -x rc_odp -d "$device" -t am_lat -D bcopy -s $size -n 500 -w 10
        pair "am_bw bcopy $size" -x rc_odp -d "$device" -t am_bw -D bcopy -s $size -n 1000 -w 10
        pair "put_bw bcopy $size" -x rc_odp -d "$device" -t put_bw -D bcopy -s $size -n 1000 -w 10
        pair "get bcopy $size" -x rc_odp -d "$device" -t get -D bcopy -s $size -n 500 -w 10
    done
    for size in 8 65536 4194304; do
        pair "put_lat zcopy $size" -x rc_odp -d "$device" -t put_lat -D zcopy -s $size -n 50 -w 5
        pair "put_bw zcopy $size" -x rc_odp -d "$device" -t put_bw -D zcopy -s $size -n 100 -w 5
        pair "get zcopy $size" -x rc_odp -d "$device" -t get -D zcopy -s $size -n 50 -w 5
    done
}

ucp() {
    local test size n
    export UCX_TLS=rc_odp
    for test in "$@"; do
        for size in 8 4096 65536 4194304; do
            n=$((size > 100000 ? 20 : 300))
            pair "$test $size" -t "$test" -s $size -n $n -w 5
        done
    done
}

ucp_tag() { ucp tag_lat tag_bw tag_sync_lat; }
ucp_rma() { ucp ucp_put_lat ucp_put_bw ucp_get; }
ucp_am() { ucp ucp_am_lat ucp_am_bw stream_bw stream_lat; }
ucp_atomic() {
    export UCX_TLS=rc_odp
    pair "ucp_fadd" -t ucp_fadd -s 8 -n 300 -w 5
    pair "ucp_swap" -t ucp_swap -s 8 -n 300 -w 5
    pair "ucp_cswap" -t ucp_cswap -s 8 -n 300 -w 5
    pair "ucp_add" -t ucp_add -s 8 -n 300 -w 5
}

[ $# = 1 ] && [ "$(type -t "$1")" = function ] || { echo "usage: suite.sh TEST" >&2; exit 2; }
"$1"
