#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/module.sh CASE: loading and unloading rdma_odp. Leaves it loaded.
# Exit status: 0 passed, 77 skipped with the reason on the last line.
set -uo pipefail

DEVICE=${ODP_TEST_DEVICE:-odp0}
VERBS=${ODP_BUILD:-/build}/tests/guest/odp_verbs_tests

fail() {
    echo "$*"
    exit 1
}
skip() {
    echo "$*"
    exit 77
}

loaded() { [[ -e /sys/module/rdma_odp ]]; }
device_there() { [[ -e /sys/class/infiniband/$DEVICE ]]; }

if [[ $DEVICE != odp* ]]; then skip "$DEVICE isn't a device of rdma_odp"; fi
loaded || fail "rdma_odp isn't loaded"
# For the end, whatever happens: the next test wants the device.
restore() {
    local status=$?
    loaded || modprobe rdma_odp
    exit "$status"
}
trap restore EXIT

uverbs_node() { # of the device, by the name in its sysfs folder
    local dir
    for dir in /sys/class/infiniband_verbs/uverbs*; do
        if [[ $(cat "$dir/ibdev" 2>/dev/null) == "$DEVICE" ]]; then
            echo "/dev/infiniband/${dir##*/}"
        fi
    done
}

load() {
    modprobe rdma_odp || fail "modprobe rdma_odp failed"
    device_there || fail "no device $DEVICE after modprobe"
    local tenths=50
    until [[ -c $(uverbs_node) ]]; do # devtmpfs makes it
        if ((tenths-- == 0)); then fail "no device node for $DEVICE after modprobe"; fi
        sleep 0.1
    done
    chmod 0666 "$(uverbs_node)" # what udev does, where it runs
}
unload() {
    rmmod rdma_odp || fail "rmmod rdma_odp failed"
    if loaded; then fail "rdma_odp is still loaded after rmmod"; fi
    if device_there; then fail "$DEVICE is still there after rmmod"; fi
}
works() { "$VERBS" rc.send || fail "$DEVICE doesn't work"; }

case_cycle() {
    local round
    works
    for round in 1 2 3 4 5; do
        unload
        load
    done
    works
    unload
    load
}

# The driver can take its device away from under an open file: the kernel then lets the module go,
# and the file answers with an error. A refusal would be as good.
case_in_use() {
    local node
    node=$(uverbs_node)
    exec 3<>"$node" || fail "can't open $node"
    if rmmod rdma_odp 2>&1; then
        if loaded || device_there; then fail "half unloaded"; fi
        # 40 bytes that aren't a command: what matters is that it answers
        if head -c 40 /dev/zero >&3 2>/dev/null; then fail "the file still takes commands"; fi
        load
    fi
    exec 3>&-
    works
    unload
    load
}

in_use() { rdma resource show 2>/dev/null | grep -q "$DEVICE:.* mr [1-9]"; }

# The process may fail, in whatever way; it must end, and the module must be usable after.
case_in_use_by_traffic() {
    local pid tenths=100 status round
    for round in 1 2 3; do
        "$VERBS" size.large 2>&1 &
        pid=$!
        until in_use; do
            if ((tenths-- == 0)); then fail "the traffic doesn't start"; fi
            sleep 0.1
        done
        rmmod rdma_odp && loaded && fail "half unloaded"
        # A test gives up 15 s after the last completion.
        wait "$pid"
        status=$?
        echo "round $round: the process under traffic ended with $status"
        if ! loaded; then load; fi
    done
    works
}

# Both drivers have the same driver id, which librxe asks for; rdma_rxe's end unregisters all
# devices with that id, ours too.
case_rxe() {
    modprobe -q rdma_rxe || skip "this kernel has no rdma_rxe"
    rdma link add rxe_test type rxe netdev lo || fail "rdma link add failed"
    works
    ODP_TEST_DEVICE=rxe_test "$VERBS" rc.send || fail "rxe doesn't work beside rdma_odp"
    works
    rmmod rdma_rxe || fail "rmmod rdma_rxe failed"
    if device_there; then works; fi
    unload
    load
    works
}

# rdma-core's own tests on rxe as the baseline: whatever passes there has to pass here.
case_rdma_core() {
    modprobe -q rdma_rxe || skip "this kernel has no rdma_rxe"
    ip link add odp_rxe type dummy || fail "no dummy network device"
    ip addr add 10.77.0.1/24 dev odp_rxe && ip link set odp_rxe up || fail "no address for it"
    rdma link add rxe_base type rxe netdev odp_rxe || fail "rdma link add failed"
    "$(dirname "$0")/rdma_core_tests.py" --device "$DEVICE" --baseline rxe_base
    local status=$?
    rdma link delete rxe_base && ip link delete odp_rxe || fail "rxe_base can't be deleted"
    rmmod rdma_rxe || fail "rmmod rdma_rxe failed"
    unload
    load
    ((status == 0)) || exit "$status"
}

if [[ $# -ne 1 ]] || ! declare -F "case_$1" >/dev/null; then
    echo "usage: tests/guest/module.sh CASE; cases:"
    declare -F | sed -n 's/^declare -f case_/  /p'
    exit 2
fi
"case_$1"
