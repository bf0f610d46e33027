# SPDX-License-Identifier: BSD-3-Clause
# What ./vm needs from the host: root, Debian 12 or 13 on x86-64, a few packages, a mirror.
# shellcheck shell=bash

check_host() {
    if ((EUID != 0)); then die "needs root (chroot, mounts): sudo ./vm $VERB"; fi
    if [[ $(uname -m) != x86_64 ]]; then die "this machine is $(uname -m): ./vm needs x86-64"; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        die "this is no Debian: ./vm needs Debian 12 or 13 (apt-get not found)"
    fi
    install_packages
}

install_packages() {
    local package missing=()
    # Each with what it is there for.
    for package in mmdebstrap debian-archive-keyring qemu-system-x86 rsync python3 git; do
        if [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) != ii* ]]; then
            missing+=("$package")
        fi
    done
    if ((${#missing[@]} == 0)); then return; fi
    lock "$CACHE/host.lock"
    say "installing host packages: ${missing[*]}"
    local log=$CACHE/log/host-packages.log
    if ! step "apt-get update" "$log" apt-get update ||
        ! step "apt-get install ${missing[*]}" "$log" env DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --no-install-recommends "${missing[@]}"; then
        failed "installing host packages (network? mirror?)" "$log"
    fi
    unlock
}

# The mirror of the host's own Debian suite, so that proxies, caches and internal mirrors are used.
find_mirror() {
    local codename list
    MIRROR=${ODP_MIRROR-}
    if [[ -n $MIRROR ]]; then
        [[ $MIRROR =~ ^(https?|ftp|file|copy):/ ]] ||
            die "ODP_MIRROR '$MIRROR': must be a URL that apt takes, http://HOST/debian for example" 2
    else
        codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
        # shellcheck disable=SC2016 # apt's variables, not ours
        MIRROR=$(apt-get indextargets --no-release-info \
            --format '$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)' 2>/dev/null |
            awk -v codename="$codename" '$1 == "Packages" && $3 == "main" &&
                ($2 == codename || $2 == "stable" || $2 == "oldstable") { print $4; exit }')
        # apt's list-of-mirrors method: the first entry
        if [[ $MIRROR == mirror+file:* ]]; then
            list=${MIRROR#mirror+file:}
            MIRROR=$(awk '/^[a-z]+:/ { print $1; exit }' "${list%/}" 2>/dev/null)
        fi
    fi
    if [[ ! $MIRROR =~ ^(https?|ftp|file|copy):/ ]]; then
        die "no Debian mirror in the host's apt configuration (found '$MIRROR'): set ODP_MIRROR to one"
    fi
}
