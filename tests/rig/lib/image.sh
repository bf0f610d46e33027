# SPDX-License-Identifier: BSD-3-Clause
# The guest's root file system and kernels, made once per recipe and kept in the cache.
# shellcheck shell=bash

# Everything the image is made of; the mirror only says where the same packages come from.
image_key() {
    cat "$RIG"/image/{packages,build,kernels} "$RIG/chroot/initramfs" "$RIG/guest/initramfs-init" | sha256sum | cut -c1-12
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
                failed "making the root file system from $MIRROR" "$log"
            mv "$scratch" "$IMAGE"
        fi
        unlock
    fi
}

# need_kernel SERIES : sets BOOT and RELEASE
need_kernel() {
    BOOT=$IMAGE/boot/$1
    if [[ ! -f $BOOT/vmlinuz ]]; then
        die "the mirror had no kernel $1 when the image was made; use another one of: $KERNELS (--kernel)"
    fi
    RELEASE=$(<"$BOOT/release")
}
