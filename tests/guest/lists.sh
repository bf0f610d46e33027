#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/lists.sh: each case of the verbs tests is run by verbs.list, each pattern there
# matches a case.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd -P)
mapfile -t cases < <("${ODP_BUILD:-/build}/tests/guest/odp_verbs_tests" --list)
mapfile -t patterns < <(sed -n "s/.*odp_verbs_tests '\(.*\)'\$/\1/p" "$HERE/verbs.list")
((${#cases[@]} > 0 && ${#patterns[@]} > 0)) || {
    echo "${#cases[@]} cases in the program, ${#patterns[@]} patterns in verbs.list"
    exit 1
}
declare -A unused=()
for pattern in "${patterns[@]}"; do unused[$pattern]=1; done
missing=()
for name in "${cases[@]}"; do
    name=${name%% *}
    found=0
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053 # it is a pattern
        if [[ $name == $pattern ]]; then
            found=1
            unset "unused[$pattern]"
        fi
    done
    if ((!found)); then missing+=("$name"); fi
done
if ((${#missing[@]} + ${#unused[@]} > 0)); then
    echo "cases that no pattern runs: ${missing[*]-}; patterns without a case: ${!unused[*]}"
    exit 1
fi
