#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/selftest.sh: the runner tells each kind of bad test, and good ones pass.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd -P)
DIR=$(mktemp -d) || exit 1
# shellcheck disable=SC2317 # called by the trap
cleanup() { rm -rf "$DIR" /dev/shm/odp-selftest; }
trap cleanup EXIT

# In place of the kernel's log, which the runner around this one looks at as well: what was
# written to the file, behind the mark of the test.
dmesg() {
    printf '[    1.0] WARNING: before any test\n'
    grep -h 'odp-test' <(command dmesg) | tail -n 1
    cat "$ODP_SELFTEST/log" 2>/dev/null
}
export -f dmesg
export ODP_SELFTEST=$DIR

cat >"$DIR/self.list" <<'END'
# a comment, an empty line

good        20  true
skipped     20  echo the reason; exit 77
bad         20  echo what went wrong; exit 3
crash       20  kill -SEGV $$
slow         1  sleep 1000
background  20  sleep 1000 & exit 0
daemon      20  setsid sleep 1000 & exit 0
file        20  touch /dev/shm/odp-selftest
file_gone   20  rm /dev/shm/odp-selftest
warning     20  echo '[  2.0] WARNING: CPU: 0 at mm/x.c' >$ODP_SELFTEST/log
log_clean   20  rm $ODP_SELFTEST/log
cases       20  printf '# cases\nok a.one (0.1 s)\nskip a.two: no\nnot ok a.three: wrong\n'; exit 1
cases_crash 20  printf '# cases\nok b.one (0.1 s)\n'; kill -SEGV $$
END
# name, then what its line must match, one line each in this order
cat >"$DIR/want" <<'END'
^ok good \([0-9.]+ s\)$
^skip skipped: the reason$
^not ok bad: exit status 3: what went wrong$
^not ok crash: exit status 139
^not ok slow: not done after 1 s$
^not ok background: processes left behind: sleep\([0-9]+\)$
^not ok daemon: processes left behind: sleep\([0-9]+\)$
^not ok file: left behind: files-in-/dev/shm [0-9]+ \(was [0-9]+\)$
^ok file_gone
^not ok warning: kernel log: .*WARNING: CPU: 0 at mm/x.c$
^ok log_clean
^ok a.one \(0.1 s\)$
^skip a.two: no$
^not ok a.three: wrong$
^ok b.one \(0.1 s\)$
^not ok cases_crash: exit status 139
^# 5 passed, 9 failed, 2 skipped$
END

ODP_TEST_LIST=$DIR/self.list ODP_TEST_LOGS=$DIR/logs "$HERE/run" >"$DIR/out" 2>&1
status=$?
cat "$DIR/out"
grep -E '^(ok|not ok|skip|#) ' "$DIR/out" >"$DIR/lines"
((status == 1)) || {
    echo "exit status $status, want 1"
    exit 1
}
exec {want}<"$DIR/want" {got}<"$DIR/lines"
while read -r -u "$want" pattern; do
    IFS= read -r -u "$got" line || line='(end)'
    if [[ ! $line =~ $pattern ]]; then
        echo "got '$line', want $pattern"
        exit 1
    fi
done
if IFS= read -r -u "$got" line; then
    echo "unexpected: $line"
    exit 1
fi

ODP_TEST_LIST=$DIR/self.list ODP_TEST_LOGS=$DIR/logs "$HERE/run" good skipped >"$DIR/out" 2>&1 || {
    cat "$DIR/out"
    echo "exit status $?, want 0 when nothing failed"
    exit 1
}
