# SPDX-License-Identifier: BSD-3-Clause
# Open MPI, for the BTL; any MPI, for the benchmarks and tests; UCX.

AC_DEFUN([ODP_MPI], [
    AC_ARG_VAR([MPICXX], [C++ compiler wrapper of the MPI that benchmarks and tests are built with])
    # that of the Open MPI which the BTL is for, if one is named
    AS_CASE([$with_ompi], [""|yes|no|auto], [odp_mpi_path=$PATH],
        [odp_mpi_path=$with_ompi/bin$PATH_SEPARATOR$PATH])
    AC_PATH_PROGS([MPICXX], [mpicxx mpic++], [], [$odp_mpi_path])
    AS_IF([test -n "$MPICXX"], [odp_mpi_note="yes ($MPICXX)"],
        [odp_mpi_note="no (no mpicxx in PATH: install an MPI or set MPICXX)"])
    AM_CONDITIONAL([HAVE_MPI], [test -n "$MPICXX"])
])

# ODP_OMPI_PATH(NAME, VARIABLE): a directory as ompi_info tells it
AC_DEFUN([ODP_OMPI_PATH],
    [$2=`$OMPI_INFO --parsable --path $1 2>/dev/null | sed -n 's/^path:$1://p' | head -n 1`])

AC_DEFUN([ODP_OMPI], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi@<:@=PREFIX@:>@],
            [build the Open MPI BTL; Open MPI 5 with its development headers in PREFIX or PATH (default: if found)])],
        [], [with_ompi=auto])
    AC_ARG_WITH([ompi-plugindir],
        [AS_HELP_STRING([--with-ompi-plugindir=DIR],
            [install the BTL there, for those who can't write where Open MPI is
             (default: Open MPI's own folder); see odp-env.sh])],
        [], [with_ompi_plugindir=])
    odp_ompi_note=no
    AS_CASE([$with_ompi],
        [no], [odp_ompi_note="no (--without-ompi)"],
        [yes|auto], [odp_ompi_path=$PATH],
        [odp_ompi_path=$with_ompi/bin])
    AS_IF([test "x$with_ompi" != xno], [
        AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$odp_ompi_path])
        AS_IF([test -z "$OMPI_INFO"],
            [odp_ompi_note="no (no ompi_info in $odp_ompi_path: install Open MPI 5)"],
            [ODP_OMPI_HEADERS])
        AS_IF([test "x$odp_ompi_note" = xyes && test "x$odp_verbs_note" != xyes],
            [odp_ompi_note="no (needs libibverbs)"])
        AS_IF([test "x$odp_ompi_note" != xyes && test "x$with_ompi" != xauto],
            [AC_MSG_ERROR([--with-ompi=$with_ompi can't be had: $odp_ompi_note])])
    ])
    AM_CONDITIONAL([HAVE_OMPI], [test "x$odp_ompi_note" = xyes])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_LIBDIR])
    AC_SUBST([ompi_mcadir])
    AC_SUBST([ompi_helpdir])
    AC_SUBST([ompi_component_path])
    AC_SUBST([pmix_component_path])
])

AC_DEFUN([ODP_OMPI_HEADERS], [
    ODP_OMPI_PATH([incdir], [odp_ompi_inc])
    ODP_OMPI_PATH([libdir], [OMPI_LIBDIR])
    ODP_OMPI_PATH([pkglibdir], [ompi_mcadir])
    ODP_OMPI_PATH([pkgdatadir], [ompi_helpdir])
    ompi_component_path=$ompi_mcadir
    AS_CASE([$with_ompi_plugindir],
        [""], [],
        [no|yes], [AC_MSG_ERROR([--with-ompi-plugindir needs a folder])],
        [ompi_mcadir=$with_ompi_plugindir
         ompi_helpdir='${pkgdatadir}'
         ompi_component_path=$ompi_mcadir:$ompi_component_path])
    # A PMIx of its own has a folder for components, which odp-env.sh has to name.
    pmix_component_path=`pkg-config --variable=libdir pmix 2>/dev/null`
    AS_IF([test -n "$pmix_component_path"], [pmix_component_path=$pmix_component_path/pmix])
    OMPI_CPPFLAGS="-isystem $odp_ompi_inc -isystem $odp_ompi_inc/openmpi"
    # opal's headers include PMIx's, which distributions keep in a place of their own
    odp_pmix=`pkg-config --cflags pmix 2>/dev/null`
    OMPI_CPPFLAGS="$OMPI_CPPFLAGS $odp_pmix"

    AC_MSG_CHECKING([for Open MPI's component headers])
    AC_LANG_PUSH([C])
    odp_save_CPPFLAGS=$CPPFLAGS
    # Debian's package lacks three headers that opal_config.h includes: ours come last.
    CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS -idirafter $srcdir/mca_btl_odp/compat"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
        #include "opal_config.h"
        #include "opal/mca/btl/btl.h"
        #if OPAL_MAJOR_VERSION + 0 == 0 && OMPI_MAJOR_VERSION + 0 == 0
        #define VERSION_UNKNOWN
        #endif
    ]], [[mca_btl_base_module_t module; return sizeof(module) == 0;]])],
        [AC_MSG_RESULT([yes]); odp_ompi_note=yes],
        [AC_MSG_RESULT([no])
         odp_ompi_note="no (opal/mca/btl/btl.h doesn't compile with $OMPI_CPPFLAGS: install Open MPI 5 with --with-devel-headers)"])
    CPPFLAGS=$odp_save_CPPFLAGS
    AC_LANG_POP([C])
])

AC_DEFUN([ODP_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx@<:@=PREFIX@:>@],
            [build the UCX transport; UCX 1.18 with its development headers in PREFIX or the
             compiler's paths (default: if found)])],
        [], [with_ucx=auto])
    UCX_CPPFLAGS=
    UCX_LDFLAGS=
    odp_ucx_note=yes
    AS_CASE([$with_ucx],
        [no], [odp_ucx_note="no (--without-ucx)"],
        [yes|auto], [],
        [UCX_CPPFLAGS="-isystem $with_ucx/include"
         UCX_LDFLAGS="-L$with_ucx/lib"])
    AS_IF([test "x$odp_ucx_note" = xyes], [ODP_UCX_HEADERS])
    AS_IF([test "x$odp_ucx_note" = xyes && test "x$odp_verbs_note" != xyes],
        [odp_ucx_note="no (needs libibverbs)"])
    AS_IF([test "x$odp_ucx_note" != xyes && test "x$with_ucx" != xauto && test "x$with_ucx" != xno],
        [AC_MSG_ERROR([--with-ucx=$with_ucx can't be had: $odp_ucx_note])])
    AM_CONDITIONAL([HAVE_UCX], [test "x$odp_ucx_note" = xyes])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LDFLAGS])
])

# Internals that the headers don't have are known for one minor version.
AC_DEFUN([ODP_UCX_HEADERS], [
    AC_MSG_CHECKING([for UCX 1.18])
    odp_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $UCX_CPPFLAGS"
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
        #include <uct/api/version.h>
    ]])],
        [AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
            #include <uct/api/version.h>
            #if UCT_VERNO_MAJOR != 1 || UCT_VERNO_MINOR != 18
            #error another version
            #endif
        ]])], [], [odp_ucx_note="no (the headers are of another version than 1.18)"])],
        [odp_ucx_note="no (uct/api/version.h missing: install libucx-dev)"])
    AC_MSG_RESULT([$odp_ucx_note])
    CPPFLAGS=$odp_save_CPPFLAGS
])
