# SPDX-License-Identifier: BSD-3-Clause
# What a test may not leave behind. Sourced by run, which sets ODP_TEST_RUN and ODP_TEST_DEVICE.
# shellcheck shell=bash

# poll SECONDS COMMAND...: until the command succeeds, at most that long. What is freed after an
# RCU grace period or reaped by init has no event that a shell could wait for.
poll() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS > end)); then return 1; fi
        sleep 0.1
    done
}

# --- processes -----------------------------------------------------------------------------------

read -r OWN_SESSION < <(ps -o sess= -p $$)

# Sets MARKED to the living processes of the current test. Kernel threads and zombies have no
# environment. Tests have a session of their own, the runner's subshells have its.
find_marked() {
    local paths path line session
    MARKED=()
    mapfile -t paths < <(grep -lzsF "ODP_TEST_RUN=$ODP_TEST_RUN" /proc/[0-9]*/environ)
    for path in "${paths[@]}"; do
        path=${path%/environ}
        { read -r line <"$path/stat"; } 2>/dev/null || continue
        read -r _ _ _ session _ <<<"${line##*) }"
        if [[ $session != "$OWN_SESSION" ]]; then MARKED+=("${path#/proc/}"); fi
    done
}

none_marked() {
    find_marked
    ((${#MARKED[@]} == 0))
}

# Kills what is left of a test and tells it: "name(pid) ...". A process that ends by itself within
# GRACE seconds is not left over: mpirun's daemons take their time.
kill_marked() { # GRACE
    local pid name text=
    if poll "$1" none_marked; then return; fi
    for pid in "${MARKED[@]}"; do
        { read -r name <"/proc/$pid/comm"; } 2>/dev/null || name='?'
        text+="${text:+ }$name($pid)"
        kill -KILL "$pid" 2>/dev/null
    done
    poll 10 none_marked || text+=" (some can't be killed)"
    echo "$text"
}

describe_marked() {
    local pid stack
    find_marked
    for pid in "${MARKED[@]}"; do
        echo "$(cat "/proc/$pid/comm" 2>/dev/null) ($pid), state" \
            "$(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)"
        for stack in /proc/"$pid"/task/*/stack; do
            sed 's/^/    /' "$stack" 2>/dev/null
        done
    done
}

# --- kernel log ----------------------------------------------------------------------------------

LOG_MARK=

mark_kernel_log() { # NAME
    LOG_MARK=
    if [[ -n $1 ]]; then
        LOG_MARK="odp-test $$ $RANDOM: $1"
        echo "$LOG_MARK" >/dev/kmsg
    fi
}

# What in the log since the mark speaks of a fault of the kernel. When the mark has been
# overwritten in the ring: in all of it.
kernel_log_problems() {
    local bad='WARNING:|BUG:|Oops[: ]|general protection|kernel panic|INFO: task|INFO: rcu'
    bad+='|rcu:.*(stall|starved)|blocked for more than|soft lockup|hard LOCKUP'
    bad+='|possible (circular|recursive) lock|inconsistent lock state|suspicious RCU|lock held when'
    bad+='|KFENCE|KASAN|KCSAN|UBSAN|kmemleak:.*new suspected|refcount_t:|list_(add|del) corruption'
    bad+='|sleeping function called|scheduling while atomic|Bad page|Bad rss|Objects remaining'
    bad+='|Call Trace:|rdma_odp:.*(leak|still)|unregister_netdevice: waiting'
    dmesg | awk -v mark="$LOG_MARK" -v bad="$bad" '
        mark != "" && index($0, mark) { lines = 0; delete text; next }
        lines > 0 && lines < 200 { text[++lines] = $0; next }
        $0 ~ bad { text[++lines] = $0 }
        END { for (i = 1; i <= lines; i++) print text[i] }'
}

# --- driver and memory ---------------------------------------------------------------------------

CPUS=$(nproc)

# An idle CPU keeps the last process's mm until it runs another one: make each run one.
kick_cpus() {
    local cpu
    for ((cpu = 0; cpu < CPUS; cpu++)); do
        taskset -c "$cpu" true 2>/dev/null
    done
}

# Sets STATE[WHAT]=COUNT. Shrinking a cache first makes its count exact, else objects that the
# CPUs' own lists hold count as used. No program is run but rdma: it is done for each test.
read_state() {
    local path cache count rest files
    STATE=()
    # "COUNT N0=COUNT..."; /proc/slabinfo says the same, but bash reads it byte by byte.
    for path in /sys/kernel/slab/{odp_,rdma_odp}* /sys/kernel/slab/mm_struct; do
        if [[ -e $path/objects ]]; then
            echo 1 >"$path/shrink"
            read -r count _ <"$path/objects"
            STATE[slab:${path##*/}]=$count
        fi
    done
    if [[ -e /sys/module/rdma_odp/refcnt ]]; then
        STATE[module-references]=$(</sys/module/rdma_odp/refcnt)
    fi
    # "0: odp0: pd 1 cq 4 qp 2 ..."
    while read -r _ path rest; do
        if [[ $path != "$ODP_TEST_DEVICE:" ]]; then continue; fi
        while read -r cache count rest <<<"$rest" && [[ -n $cache ]]; do
            STATE[resource:$cache]=$count
        done
    done < <(rdma resource show 2>/dev/null)
    shopt -s nullglob dotglob
    files=(/dev/shm/*)
    shopt -u nullglob dotglob
    STATE[files-in-/dev/shm]=${#files[@]}
}

declare -A BASELINE=() STATE=()

take_baseline() {
    local what
    kick_cpus
    read_state
    BASELINE=()
    for what in "${!STATE[@]}"; do BASELINE[$what]=${STATE[$what]}; done
}

# Sets PROBLEMS to what is more than before. What isn't in the baseline (the module was loaded
# since) must be 0.
nothing_left() {
    local what allowed
    PROBLEMS=
    read_state
    for what in "${!STATE[@]}"; do
        allowed=${BASELINE[$what]:-0}
        # Which dead mm the idle CPUs still hold is chance.
        if [[ $what == slab:mm_struct ]]; then allowed=$((allowed + CPUS)); fi
        if ((STATE[$what] > allowed)); then
            PROBLEMS+="${PROBLEMS:+, }$what ${STATE[$what]} (was $allowed)"
        fi
    done
    if [[ -n $PROBLEMS ]]; then
        kick_cpus
        return 1
    fi
}

# Sets PROBLEMS, empty when all is back. Frees deferred by RCU and dead mms get 10 s. (Not by its
# output: a command substitution is a process, and its mm would count.)
find_state_problems() { poll 10 nothing_left; }

# What is in use at all, for the end of a run.
find_usage_problems() {
    local what
    for what in "${!BASELINE[@]}"; do
        case $what in
        slab:mm_struct) ;;
        *) BASELINE[$what]=0 ;;
        esac
    done
    find_state_problems
}
