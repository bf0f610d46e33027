# SPDX-License-Identifier: BSD-3-Clause
# Messages, progress and children of ./vm. Everything ./vm itself says goes to stderr, so that
# stdout carries nothing but the guest's output.
# shellcheck shell=bash

say() { printf 'vm: %s\n' "$*" >&2; }
detail() { if ((VERBOSE)); then say "$*"; fi; }

# die MESSAGE [EXIT_CODE]
die() {
    printf 'vm: error: %s\n' "$1" >&2
    exit "${2:-1}"
}

# A pipe that never has data: "read -t" on it sleeps without a process that could be left behind.
exec {TICK}<> <(:)
CHILD=
SCRATCH=()

pause() { read -rt "$1" -u "$TICK" || true; }

cleanup() {
    local dir i
    if [[ -n $CHILD ]]; then
        kill -TERM "$CHILD" 2>/dev/null
        # unshare holds TERM back, but its death is the end of the whole namespace.
        for ((i = 0; i < 5; i++)); do
            kill -0 "$CHILD" 2>/dev/null || break
            pause 0.1
        done
        kill -KILL "$CHILD" 2>/dev/null
        wait "$CHILD" 2>/dev/null
        CHILD=
    fi
    for dir in "${SCRATCH[@]}"; do
        # Dying processes of the namespace may still be writing there.
        for ((i = 0; i < 50; i++)); do
            rm -rf --one-file-system "$dir" 2>/dev/null
            if [[ ! -e $dir ]]; then break; fi
            pause 0.1
        done
    done
    SCRATCH=()
}

# keep SCRATCH_DIR NAME : what was being made is complete. From here on its old name may be that of
# another ./vm's work.
keep() {
    mv -T "$1" "$2" || die "cannot rename $1 to $2"
    no_scratch "$1"
}

no_scratch() {
    local dir rest=()
    for dir in "${SCRATCH[@]}"; do
        if [[ $dir != "$1" ]]; then rest+=("$dir"); fi
    done
    SCRATCH=("${rest[@]}")
}

# What a ./vm that was killed with -9 could not delete itself; a live one holds a lock on its own.
drop_stale_jobs() {
    local dir fd
    # A minute old at least: a new one may not have its lock yet.
    while IFS= read -rd '' dir; do
        exec {fd}<"$dir" || continue
        if flock -n "$fd"; then rm -rf --one-file-system "$dir"; fi
        exec {fd}<&-
    done < <(find "$CACHE/run" -mindepth 1 -maxdepth 1 -type d -mmin +1 -print0)
}

on_signal() {
    trap '' INT TERM HUP
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
    say "interrupted (SIG$1), cleaning up"
    cleanup
    trap - "$1" EXIT
    kill -s "$1" $$
}

install_traps() {
    trap cleanup EXIT
    trap 'on_signal INT' INT
    trap 'on_signal TERM' TERM
    trap 'on_signal HUP' HUP
}

# In namespaces of its own, so that neither an interrupt nor kill -9 of ./vm leaves a process or a
# mount behind: pdeathsig ends unshare, unshare's end kills the namespace.
ISOLATE=(setpriv --pdeathsig KILL
    unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc)

# step LABEL LOG COMMAND... : runs COMMAND with its output in LOG; shows what is going on if that
# takes more than two seconds. Returns COMMAND's status.
step() {
    local label=$1 log=$2 start=$SECONDS shown=-1 status=0 now
    shift 2
    mkdir -p "${log%/*}"
    detail "$label: $* (log: $log)"
    "$@" >"$log" 2>&1 </dev/null &
    CHILD=$!
    while kill -0 "$CHILD" 2>/dev/null; do
        pause 0.1
        now=$((SECONDS - start))
        if ((now < 2 || now == shown)); then continue; fi
        if [[ -t 2 ]]; then
            printf '\r\033[Kvm: %s ... %d s' "$label" "$now" >&2
        elif ((shown < 0)); then
            say "$label ..."
        elif ((now % 30 == 0)); then
            say "$label ... $now s"
        else
            continue
        fi
        shown=$now
    done
    wait "$CHILD" || status=$?
    CHILD=
    if ((shown >= 0)); then
        if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
        if ((status == 0)); then say "$label: done in $((SECONDS - start)) s"; fi
    fi
    return "$status"
}

# failed WHAT LOG : ends ./vm with the log's tail and its path
failed() {
    tail -n 25 "$2" | sed 's/^/    /' >&2
    die "$1 failed; the whole log: $2"
}

# lock FILE [-s] : held until ./vm ends or unlock; says so when it has to wait
lock() {
    local file=$1 mode=${2:--x}
    mkdir -p "${file%/*}"
    exec {LOCK_FD}>>"$file"
    if ! flock -n "$mode" "$LOCK_FD"; then
        say "waiting for another ./vm that is using ${file%.lock}"
        while ! flock "$mode" -w 1 "$LOCK_FD"; do :; done
    fi
}

unlock() { exec {LOCK_FD}>&-; }
