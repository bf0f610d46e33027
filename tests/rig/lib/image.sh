# SPDX-License-Identifier: BSD-3-Clause
# The guest's root file system and kernels, made once per recipe and kept in the cache.
# shellcheck shell=bash

# Everything the image is made of; the mirror only says where the same packages come from.
image_key() {
    cat "$RIG"/image/{packages,build,kernels} | sha256sum | cut -c1-12
}

# Sets IMAGE. Others that use the same image wait for the one that makes it.
need_image() {
    local log scratch
    IMAGE=$CACHE/image/$(image_key)
    if [[ ! -d $IMAGE ]]; then
        lock "$IMAGE.lock"
        if [[ ! -d $IMAGE ]]; then
            find_mirror
            log=$CACHE/log/image.log
            scratch=$IMAGE.making
            # Left over from a kill -9: we hold the lock, so nobody is at work on it.
            rm -rf --one-file-system "$scratch"
            SCRATCH+=("$scratch")
            say "making the guest's root file system (trixie, kernels $KERNELS), once; log: $log"
            step "downloading and unpacking Debian" "$log" \
                "${ISOLATE[@]}" "$RIG/image/build" "$scratch" "$MIRROR" ||
                failed "making the root file system (mirror $MIRROR; ODP_MIRROR sets another one)" "$log"
            keep "$scratch" "$IMAGE"
        fi
        drop_old_images
        unlock
    fi
    touch "$IMAGE"
}

# Images of other recipes that nobody used for a week
drop_old_images() {
    local old
    find "$CACHE/image" -mindepth 1 -maxdepth 1 -type d -mtime +7 -print0 |
        while IFS= read -rd '' old; do
            if flock -n "$old.lock" true; then rm -rf --one-file-system "$old"; fi
        done
}

# need_kernel SERIES : sets RELEASE and BOOT, the directory of vmlinuz and initrd
need_kernel() {
    local key log
    if [[ ! -f $IMAGE/kernel/$1 ]]; then
        die "the mirror had no kernel $1 when the image was made; use another one of: $KERNELS (--kernel)"
    fi
    RELEASE=$(<"$IMAGE/kernel/$1")
    key=$(cat "$RIG/chroot/initramfs" "$RIG/guest/initramfs-init" | sha256sum | cut -c1-12)
    BOOT=$IMAGE/boot/$1-$key
    if [[ -d $BOOT ]]; then return; fi
    lock "$IMAGE.lock"
    if [[ ! -d $BOOT ]]; then
        log=$CACHE/log/initramfs-$1.log
        DEST=$BOOT.making
        rm -rf --one-file-system "$DEST"
        mkdir -p "$DEST"
        SCRATCH+=("$DEST")
        in_chroot "making the initramfs of $RELEASE" "$log" "$RIG/chroot/initramfs" "$RELEASE" ||
            failed "making the initramfs of $RELEASE" "$log"
        keep "$DEST" "$BOOT"
    fi
    unlock
}
