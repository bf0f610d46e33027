# SPDX-License-Identifier: BSD-3-Clause
# The kernel module, for one or more kernels.

AC_DEFUN([ODP_KERNEL], [
    AC_ARG_WITH([kernel],
        [AS_HELP_STRING([--with-kernel=DIR@<:@,DIR...@:>@],
            [build the module for the kernels with these build directories, such as
             /lib/modules/`uname -r`/build (default: no)])],
        [], [with_kernel=no])
    odp_kernel_note="no (no --with-kernel=DIR)"
    KERNEL_DIRS=
    AS_CASE([$with_kernel],
        [no], [],
        [yes], [with_kernel=/lib/modules/`uname -r`/build])
    AS_IF([test "x$with_kernel" != xno], [
        KERNEL_DIRS=`echo "$with_kernel" | tr ',' ' '`
        for odp_dir in $KERNEL_DIRS; do
            AS_IF([test ! -f "$odp_dir/Makefile" || test ! -f "$odp_dir/include/config/auto.conf"],
                [AC_MSG_ERROR([--with-kernel: $odp_dir is no kernel build directory: install the kernel's headers])])
            for odp_config in CONFIG_INFINIBAND_USER_ACCESS CONFIG_INFINIBAND_ON_DEMAND_PAGING; do
                AS_IF([grep -q "^$odp_config=" "$odp_dir/include/config/auto.conf"], [],
                    [AC_MSG_ERROR([--with-kernel: the kernel of $odp_dir was built without $odp_config])])
            done
        done
        odp_kernel_note="yes ($KERNEL_DIRS)"
    ])
    AC_SUBST([KERNEL_DIRS])
    AM_CONDITIONAL([HAVE_KERNEL], [test "x$with_kernel" != xno])
])
