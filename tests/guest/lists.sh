#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/guest/lists.sh: each case of the verbs tests is in verbs.list, and the other way round.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd -P)
in_program=$("${ODP_BUILD:-/build}/tests/guest/odp_verbs_tests" --list | awk '{ print $1 }' | sort)
in_list=$(awk '/odp_verbs_tests/ { print $NF }' "$HERE/verbs.list" | sort)
if [[ $in_program != "$in_list" ]]; then
    diff <(echo "$in_program") <(echo "$in_list") || true
    echo "the program's cases (<) and verbs.list (>) differ"
    exit 1
fi
