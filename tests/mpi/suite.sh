#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/mpi/suite.sh NAME: one entry of tests.list. Exit 0: passed; 77: skipped; else failed. The
# last line of the output says why it was skipped or failed.
#
#   ODP_BUILD       build directory that holds tests/mpi and perf (/build)
#   ODP_TEST_MPIRUN mpirun with its transport options, to run the same tests over another one
#                   ("mpirun --mca btl odp,self")
#   ODP_TEST_ARGS   more arguments for odp_mpi_tests, e.g. "--seed 7 --effort 10"

set -u -o pipefail

build=${ODP_BUILD:-/build}
read -r -a mpirun <<< "${ODP_TEST_MPIRUN:-mpirun --mca btl odp,self}"
read -r -a test_args <<< "${ODP_TEST_ARGS:-}"
tests=$build/tests/mpi/odp_mpi_tests
hooks=$build/tests/mpi/odp_mpi_hooks
latency=$build/perf/odp_latency
bw=$build/perf/odp_bw

# shellcheck source=tests/mpi/env.sh
. "$(dirname "$0")/env.sh"
# Open MPI's advice against fork() is for registered memory, which is what the fork tests are about.
export OMPI_MCA_mpi_warn_on_fork=0

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

fail() { echo "$*"; exit 1; }
skip() { echo "$*"; exit 77; }

# job RANKS PROGRAM [ARG...]: one MPI job.
job() { local ranks=$1; shift; "${mpirun[@]}" --oversubscribe -n "$ranks" "$@"; }

# cases RANKS CASE...: named cases of the driver; all must pass.
cases() {
    local ranks=$1; shift
    job "$ranks" "$tests" "${test_args[@]}" "$@" 2>&1 | tee "$log"
    local rc=$?
    local bad
    bad=$(grep -a -m1 '^not ok' "$log")
    [ -n "$bad" ] && fail "${bad#not ok }"
    [ $rc -eq 0 ] ||
        fail "mpirun ended with exit code $rc: $(grep -a -v '^ok' "$log" | grep -a -m1 '[a-z]')"
    grep -a -q '^ok' "$log" || fail "no case ran"
}

# must_fail WHAT PATTERN COMMAND...: it ends with an error and says PATTERN.
must_fail() {
    local what=$1 pattern=$2; shift 2
    "$@" > "$log" 2>&1
    local rc=$?
    cat "$log"
    [ $rc -ne 0 ] || fail "$what: exit code 0 where an error was due"
    grep -a -q -E -e "$pattern" "$log" || fail "$what: no line with '$pattern'"
}

over_odp() { [ -z "${ODP_TEST_MPIRUN:-}" ]; }

case ${1:-} in
sizes)      cases 2 sizes thresholds random_sizes ;;
messages)   cases 2 datatypes unexpected outstanding bidirectional any_source ring persistent \
                    probe ;;
memory)     cases 2 fresh_mmap fresh_one_side map_over realloc malloc_trim brk stack dontneed thp \
                    mremap read_only shared_file memfd_aliases truncate mprotect nothing_pinned ;;
fork)       cases 2 fork_receive fork_send fork_storm ;;
four_ranks) cases 4 all_pairs any_source ring broadcast all_to_all all_to_all_v reductions ;;
many_ranks) cases 8 all_pairs reductions ;;
threads)    cases 2 --threads threads ;;

can_fail)   # a spoiled byte fails the tests and the benchmarks
    cases 2 --corrupt random_sizes unexpected any_source fresh_mmap dontneed read_only \
            shared_file fork_storm broadcast
    for program in "$latency" "$bw"; do
        export ODP_PERF_CORRUPT=2000
        must_fail "${program##*/} with a spoiled byte" '^2048 .*Fail' \
            job 2 "$program" -c -m 1024:4096 -i 2 -x 0 -u 1
        grep -a -q '^1024 .*Pass' "$log" || fail "${program##*/}: a good size did not pass"
        unset ODP_PERF_CORRUPT
    done ;;

perf)       # the benchmarks' own behaviour
    for program in "$latency" "$bw"; do
        name=${program##*/}
        job 2 "$program" -c -m 0:65536 -i 4 -x 1 -u 1 2>&1 | tee "$log" || fail "$name failed"
        [ "$(grep -a -c 'Pass$' "$log")" = 18 ] || fail "$name: 18 sizes, 0 to 65536, should pass"
    done
    must_fail "odp_latency -i 0" "^odp_latency: -i '0': " job 2 "$latency" -i 0
    must_fail "odp_bw with one rank" 'needs exactly 2 processes, got 1' job 1 "$bw" ;;

only_odp)   # with odp,self nothing else carries a byte
    over_odp || skip "runs over another transport"
    export OMPI_MCA_btl_odp_stats=1
    cases 3 all_pairs ring broadcast reductions no_other_path
    [ "$(grep -a -c 'btl odp: rank=.* send_bytes=[1-9]' "$log")" = 3 ] ||
        fail "not every rank says that its odp BTL has carried bytes" ;;

no_device)  # without the device: a clear error, or another BTL if there is one, silently
    over_odp || skip "runs over another transport"
    rmmod rdma_odp || fail "cannot unload rdma_odp before the test"
    trap 'modprobe rdma_odp; rm -f "$log"' EXIT
    must_fail "odp,self without a device" 'unable to reach each other|unreachable' \
        job 2 "$tests" bidirectional
    mpirun --mca btl odp,sm,self -n 2 "$tests" bidirectional > "$log" 2>&1 ||
        fail "odp,sm,self without a device: $(tail -n1 "$log")"
    cat "$log"
    bad=$(grep -a -v -E '^(ok|#) ' "$log" | grep -a -m1 odp)
    [ -z "$bad" ] || fail "the odp BTL should withdraw silently, but says: $bad"
    mpirun --mca btl odp,sm,self --mca btl_base_verbose 40 -n 1 "$tests" bidirectional \
        > "$log" 2>&1
    grep -a -i -E 'odp.*(no |not |without|device)' "$log" | head -n 5
    [ "${PIPESTATUS[0]}" -eq 0 ] || fail "btl_base_verbose 40 gives no reason for the withdrawal" ;;

hooks_off)  # libc's functions stay as they are, from start to Finalize
    job 2 "$hooks" unpatched || fail "libc functions are changed in the documented environment"
    unset UCX_MEM_EVENTS
    job 2 "$hooks" patched 2> "$log" ||
        fail "the check does not see UCX's hooks, so it proves nothing" ;;

hooks_on)   # whoever leaves UCX's hooks on loses nothing
    unset UCX_MEM_EVENTS
    cases 2 fresh_mmap realloc malloc_trim brk dontneed mremap shared_file fork_receive ;;

killed_peer) # the job ends, with an error
    must_fail "SIGKILL of rank 1" 'signal 9' timeout 40 "${mpirun[@]}" -n 2 "$tests" killed_peer
    grep -a -q 'kills itself' "$log" || fail "rank 1 ended before it could kill itself"
    # Now mpirun lets the survivor live: the transport has to notice by itself.
    timeout 60 "${mpirun[@]}" --enable-recovery -n 2 "$tests" --timeout 45 killed_peer > "$log" 2>&1
    cat "$log"
    grep -a -q 'MPI_ERRORS_ARE_FATAL' "$log" ||
        fail "the survivor got no error: $(grep -a -m1 'still in it' "$log")" ;;

bad_address) # memory that the program may not touch: an error, soon
    for side in send recv; do
        must_fail "bad $side address" '[Ee]rror|[Ff]ault|signal' \
            timeout 40 "${mpirun[@]}" -n 2 "$tests" --timeout 30 bad_${side}_address
        bad=$(grep -a -m1 -E 'still in it|without an error' "$log")
        [ -z "$bad" ] || fail "$bad"
    done ;;

*)  fail "usage: tests/mpi/suite.sh NAME, a name from tests/mpi/tests.list" ;;
esac
