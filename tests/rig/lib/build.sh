# SPDX-License-Identifier: BSD-3-Clause
# Builds this checkout in a chroot of the guest's root file system, incrementally, in the cache.
# shellcheck shell=bash

# The files git knows or would know; without git (a tarball) all of them.
list_sources() {
    local path
    if git -c safe.directory='*' -C "$CHECKOUT" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$CHECKOUT" ls-files -coz --exclude-standard
    else
        (cd "$CHECKOUT" && find . \( -name .git -prune \) -o -type f -printf '%P\0')
    fi | sort -zu | while IFS= read -rd '' path; do
        # Deleted in the working tree, but not in the index yet
        if [[ -f $CHECKOUT/$path || -L $CHECKOUT/$path ]]; then printf '%s\0' "$path"; fi
    done
}

# Copies what changed to the build directory's src; returns 0 if anything did
sync_sources() {
    local src=$BUILD_DIR/src changed path
    mkdir -p "$src"
    list_sources >"$WORK/manifest.new"
    # A copy gets the time of copying: a file edited while a build runs has an older time than the
    # object that was made of its predecessor, and make would take that for up to date.
    changed=$(rsync -a --no-times --checksum --no-owner --no-group --itemize-changes --from0 \
        --files-from="$WORK/manifest.new" "$CHECKOUT/" "$src/" | grep -v '^\.' || true)
    if [[ -f $WORK/manifest ]]; then
        while IFS= read -rd '' path; do
            rm -f "$src/$path"
            changed+=" -$path"
        done < <(comm -z -23 "$WORK/manifest" "$WORK/manifest.new")
    fi
    mv "$WORK/manifest.new" "$WORK/manifest"
    [[ -n $changed ]]
}

# in_chroot LABEL LOG COMMAND... : a step in the root file system; /dest in there is DEST, if set, and
# /build is BUILD_DIR, if set.
in_chroot() {
    step "$1" "$2" "${ISOLATE[@]}" "$RIG/chroot/enter" "$IMAGE/root" "$CHECKOUT" "${BUILD_DIR-}" \
        "${DEST-}" "${@:3}"
}

# need_build SERIES... : sets WORK, BUILD_DIR and INSTALL, the newest complete installation, with the
# module for these kernels at least. It stays as it is while guests use it. With HOLD_BUILD the lock is
# kept, so that no other ./vm changes sources or objects.
HOLD_BUILD=0
need_build() {
    local key log
    key=$(printf '%s' "$CHECKOUT" | sha256sum | cut -c1-12)
    WORK=$CACHE/build/$key
    BUILD_DIR=$WORK/tree
    log=$CACHE/log/build-$key.log
    mkdir -p "$BUILD_DIR" "$WORK/install"
    if ((BUILD)); then
        lock "$WORK.lock"
        build_if_changed "$log" "$@"
        take_install
        drop_old_installs
        if ((!HOLD_BUILD)); then unlock; fi
    elif [[ -n ${ODP_RIG_INSTALL-} ]]; then
        # check's own tests of ./vm: the tree that check holds, whatever others build meanwhile
        INSTALL=$ODP_RIG_INSTALL
    elif [[ -f $WORK/stamp ]]; then
        take_install
    else
        die "--no-build, but there is no build of $CHECKOUT yet: run once without it"
    fi
}

# Sets INSTALL to the newest complete tree and keeps it from being dropped while we live.
take_install() {
    local i
    for ((i = 0; i < 50; i++)); do
        INSTALL=$WORK/install/$(<"$WORK/stamp")
        if [[ -d $INSTALL ]] && { exec {INSTALL_FD}<"$INSTALL"; } 2>/dev/null; then
            flock -s "$INSTALL_FD"
            if [[ -f $INSTALL/install.img ]]; then return; fi
        fi
        # Replaced and dropped between reading its name and locking it: the stamp names the next one.
        pause 0.1
    done
    rm -f "$WORK/stamp"
    die "$INSTALL is gone or incomplete: run ./vm setup"
}

build_if_changed() {
    local log=$1 recipe series stamp built_with='' built_for=''
    shift
    recipe=$(image_key)-$(cat "$RIG"/chroot/{enter,build,kmod} | sha256sum | cut -c1-12)
    if sync_sources; then rm -f "$WORK/built"; fi
    if [[ -f $WORK/stamp && -f $WORK/built ]]; then
        read -r built_with built_for <"$WORK/built"
    fi
    if [[ $built_with == "$recipe" ]]; then
        for series in $built_for; do
            if [[ " $* " != *" $series "* ]]; then set -- "$@" "$series"; fi
        done
        if (($# == $(wc -w <<<"$built_for"))); then return; fi
    fi
    rm -f "$WORK/built"
    DEST=$WORK/install.making
    rm -rf --one-file-system "$DEST"
    mkdir -p "$DEST"
    SCRATCH+=("$DEST")
    printf '%s\n' "$CHECKOUT" >"$WORK/checkout"
    if ! in_chroot "building" "$log" "$CHECKOUT/tests/rig/chroot/build" "$@"; then
        grep -aE '(error|Error|undefined reference|\*\*\*)' "$log" | head -n 15 | sed 's/^/    /' >&2
        failed "the build" "$log"
    fi
    stamp=$(date +%s%N)
    keep "$DEST" "$WORK/install/$stamp"
    printf '%s' "$stamp" >"$WORK/stamp.new"
    mv "$WORK/stamp.new" "$WORK/stamp"
    printf '%s\n' "$recipe $*" >"$WORK/built"
}

drop_old_installs() {
    local tree fd
    for tree in "$WORK"/install/*/; do
        tree=${tree%/}
        if [[ $tree == "$INSTALL" ]]; then continue; fi
        exec {fd}<"$tree"
        if flock -n "$fd"; then rm -rf --one-file-system "$tree"; fi
        exec {fd}>&-
    done
}
