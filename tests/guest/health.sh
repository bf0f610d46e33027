# SPDX-License-Identifier: BSD-3-Clause
# What a test may not leave behind. Sourced by run, which sets ODP_TEST_RUN and ODP_TEST_DEVICE.
# shellcheck shell=bash

# poll TENTHS COMMAND...: until the command succeeds, at most that many tenths of a second. What is
# freed after an RCU grace period or reaped by init has no event that a shell could wait for.
poll() {
    local left=$1
    shift
    until "$@"; do
        if ((left-- == 0)); then return 1; fi
        sleep 0.1
    done
}

# --- processes -----------------------------------------------------------------------------------

# gone PID: it has ended (a zombie has).
gone() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    [[ ${line##*) } == Z* ]]
}

# The living processes of the current test. Kernel threads and zombies have no environment.
marked_pids() {
    local dir pid found=()
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        if ((pid == $$ || pid == BASHPID || PPID == pid)); then continue; fi
        if ! gone "$pid" && grep -qzsF "ODP_TEST_RUN=$ODP_TEST_RUN" "$dir/environ"; then
            # not the subshells and tools of the runner itself
            if ! own_helper "$pid"; then found+=("$pid"); fi
        fi
    done
    echo "${found[*]}"
}

# Children of the runner in its own session: command substitutions, this grep. Tests have a
# session each.
own_helper() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    read -r _ _ _ session _ <<<"${line##*) }"
    [[ $session == "$OWN_SESSION" ]]
}
read -r OWN_SESSION < <(ps -o sess= -p $$)

none_marked() { [[ -z $(marked_pids) ]]; }

# Kills what is left of a test and tells it: "name(pid) ...". A process that ends by itself within
# two seconds is not left over: mpirun's daemons take their time.
kill_marked() {
    local pid name text=
    if poll 20 none_marked; then return; fi
    for pid in $(marked_pids); do
        name=$(cat "/proc/$pid/comm" 2>/dev/null)
        text+="${text:+ }${name:-?}($pid)"
        kill -KILL "$pid" 2>/dev/null
    done
    poll 50 none_marked || text+=" (some can't be killed)"
    echo "$text"
}

describe_marked() {
    local pid
    for pid in $(marked_pids); do
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
    local bad='WARNING:|BUG:|\bOops\b|general protection|kernel panic|INFO: task|INFO: rcu'
    bad+='|rcu:.*(stall|starved)|blocked for more than|soft lockup|hard LOCKUP'
    bad+='|possible (circular|recursive) lock|inconsistent lock state|suspicious RCU|lock held when'
    bad+='|KFENCE|KASAN|KCSAN|UBSAN|kmemleak:.*new suspected|refcount_t:|list_(add|del) corruption'
    bad+='|sleeping function called|scheduling while atomic|Bad page|Bad rss|Objects remaining'
    bad+='|Call Trace:|rdma_odp:.*(leak|still)|unregister_netdevice: waiting'
    dmesg | awk -v mark="$LOG_MARK" '
        { lines[NR] = $0; if (mark != "" && index($0, mark)) start = NR }
        END { for (i = start + 1; i <= NR; i++) print lines[i] }' | grep -E -A 30 -- "$bad" |
        head -n 200
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

# Lines "WHAT COUNT". Shrinking a cache first makes its count exact, else objects that the CPUs'
# own lists hold count as used.
state() {
    local cache path
    for path in /sys/kernel/slab/{odp_,rdma_odp}*/shrink /sys/kernel/slab/mm_struct/shrink; do
        if [[ -e $path ]]; then echo 1 >"$path"; fi
    done 2>/dev/null
    while read -r cache count _; do
        case $cache in
        odp_* | rdma_odp*) echo "slab:$cache $count" ;;
        mm_struct) echo "mm_struct $count" ;;
        esac
    done </proc/slabinfo
    if [[ -e /sys/module/rdma_odp/refcnt ]]; then
        echo "module-references $(cat /sys/module/rdma_odp/refcnt)"
    fi
    rdma resource show 2>/dev/null | awk -v dev="$ODP_TEST_DEVICE:" '
        $2 == dev { for (i = 3; i < NF; i += 2) print "resource:" $i, $(i + 1) }'
    echo "files-in-/dev/shm $(find /dev/shm -mindepth 1 2>/dev/null | wc -l)"
}

declare -A BASELINE=()

take_baseline() {
    local what count
    kick_cpus
    BASELINE=()
    while read -r what count; do BASELINE[$what]=$count; done < <(state)
}

# Sets PROBLEMS to what is more than before. What isn't in the baseline (the module was loaded
# since) must be 0.
compare() {
    local what count allowed
    PROBLEMS=
    while read -r what count; do
        allowed=${BASELINE[$what]:-0}
        # Which dead mm the idle CPUs still hold is chance.
        if [[ $what == mm_struct ]]; then allowed=$((allowed + CPUS)); fi
        if ((count > allowed)); then PROBLEMS+="${PROBLEMS:+, }$what $count (was $allowed)"; fi
    done < <(state)
    if [[ -n $PROBLEMS ]]; then
        kick_cpus
        return 1
    fi
}

# Empty when all is back. Frees deferred by RCU and dead mms get 10 s.
state_problems() {
    poll 50 compare || echo "$PROBLEMS"
}

# What is in use at all, for the end of a run.
usage_problems() {
    local what
    for what in "${!BASELINE[@]}"; do
        case $what in
        mm_struct) ;;
        *) BASELINE[$what]=0 ;;
        esac
    done
    state_problems
}
