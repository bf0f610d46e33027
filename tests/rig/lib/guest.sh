# SPDX-License-Identifier: BSD-3-Clause
# Boots a guest for one job.
# shellcheck shell=bash

accelerator() {
    # /dev/kvm may exist on a machine that has no virtualisation to offer.
    if [[ -w /dev/kvm ]] && grep -qE '^flags.*\b(vmx|svm)\b' /proc/cpuinfo; then
        printf '%s\n' -accel kvm -cpu host
    else
        printf '%s\n' -accel tcg,thread=multi -cpu max
    fi
}

# disk FILE : qemu's arguments for a read-only disk
disk() {
    printf '%s\n' -drive "file=${1//,/,,},format=raw,if=none,readonly=on,id=disk$((++DISKS))" \
        -device "virtio-blk-pci,drive=disk$DISKS"
}

# share TAG PATH [EXTRA] : qemu's arguments for a 9p share
share() {
    printf '%s\n' -fsdev "local,id=$1,path=${2//,/,,},security_model=passthrough,multidevs=remap${3-}" \
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
}

# guest SERIES TTY COMMAND : boots, runs COMMAND (or a shell if TTY is 1), returns its status
guest() {
    local series=$1 tty=$2 cmdline job JOB_FD log token qemu status=0 rows=24 columns=80 options=()
    need_kernel "$series"
    if ((MODULE)) && [[ ! -f $INSTALL/tree/usr/lib/modules/$RELEASE/updates/rdma_odp.ko ]]; then
        die "the last build has no module for kernel $series: run once without --no-build"
    fi
    log=$CACHE/log/console-$series-$$.log
    job=$(mktemp -d "$CACHE/run/job.XXXXXX")
    SCRATCH+=("$job" "$log")
    exec {JOB_FD}<"$job"
    flock -s "$JOB_FD"
    token=$(head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \n')
    install -m 755 "$RIG/guest/init" "$job/init"
    printf '%s' "$3" >"$job/command"
    if ((tty)); then
        read -r rows columns < <(stty size)
        options+=(--tty)
    fi
    if ((VERBOSE)); then options+=(--verbose); fi
    printf '%s=%q\n' CHECKOUT "$CHECKOUT" MODULE "$MODULE" TOKEN "$token" TTY "$tty" \
        ROWS "$rows" COLUMNS "$columns" TERM "${TERM:-dumb}" >"$job/job"

    # tsc=reliable, no_timer_check: under load the checks fail by emulation alone, and switching clocks
    # patches kernel text while other emulated CPUs run it.
    cmdline="console=ttyS0 loglevel=5 panic=-1 nmi_watchdog=0 watchdog_thresh=30"
    cmdline+=" mitigations=off random.trust_cpu=on tsc=reliable no_timer_check"
    mapfile -t qemu < <(
        accelerator
        printf '%s\n' -machine q35 -smp "$CPUS" -m "$MEM" -nodefaults -no-user-config \
            -display none -no-reboot -kernel "$BOOT/vmlinuz" -initrd "$BOOT/initrd" \
            -append "$cmdline"
        DISKS=0
        disk "$IMAGE/root.img"
        disk "$INSTALL/install.img"
        share job "$job" ,readonly=on
        share checkout "$CHECKOUT"
        share build "$BUILD_DIR"
    )
    detail "booting $RELEASE, console: $log"
    setpriv --pdeathsig TERM python3 "$RIG/supervise.py" --log "$log" --token "$token" \
        --timeout "$TIMEOUT" "${options[@]}" -- qemu-system-x86_64 "${qemu[@]}" <&0 &
    CHILD=$!
    wait "$CHILD" || status=$?
    CHILD=
    exec {JOB_FD}<&-
    # Only a guest that failed has a console worth keeping.
    if ((status == 125)); then no_scratch "$log"; fi
    return "$status"
}
