# SPDX-License-Identifier: BSD-3-Clause
# Compiler flags and the checks that everything needs.

# ODP_APPEND_CXXFLAG(FLAG, VARIABLE): if the compiler takes it
AC_DEFUN([ODP_APPEND_CXXFLAG], [
    AC_MSG_CHECKING([whether $CXX takes $1])
    odp_save_CXXFLAGS=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -Werror $1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
        [AC_MSG_RESULT([yes]); $2="$$2 $1"],
        [AC_MSG_RESULT([no])])
    CXXFLAGS=$odp_save_CXXFLAGS
])

AC_DEFUN([ODP_WARNINGS], [
    AC_MSG_CHECKING([for C++20])
    odp_save_CXXFLAGS=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -std=c++20"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
        #include <concepts>
        #include <span>
        template <std::integral T> T twice(T x) { return x + x; }
    ]], [[std::span<const int> s; return twice(static_cast<int>(s.size()));]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$CXX has no C++20: use g++ 11, clang++ 14 or newer (CXX=...)])])
    CXXFLAGS=$odp_save_CXXFLAGS

    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [make warnings errors])],
        [], [enable_werror=no])
    AM_CFLAGS="-Wall -Wextra"
    AM_CXXFLAGS="-std=c++20 -Wall -Wextra"
    AS_IF([test "x$enable_werror" = xyes],
        [AM_CFLAGS="$AM_CFLAGS -Werror"; AM_CXXFLAGS="$AM_CXXFLAGS -Werror"])
    AC_SUBST([AM_CFLAGS])
    AC_SUBST([AM_CXXFLAGS])
])

AC_DEFUN([ODP_SANITIZERS], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers],
            [build with the address and undefined behaviour sanitizers, for the unit tests])],
        [], [enable_sanitizers=no])
    AS_IF([test "x$enable_sanitizers" = xyes], [
        odp_san="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
        AM_CFLAGS="$AM_CFLAGS $odp_san"
        AM_CXXFLAGS="$AM_CXXFLAGS $odp_san"
        AM_LDFLAGS="-fsanitize=address,undefined"
    ])
    AC_SUBST([AM_LDFLAGS])
])

AC_DEFUN([ODP_VERBS], [
    odp_verbs_note=yes
    AC_CHECK_HEADER([infiniband/verbs.h],
        [AC_CHECK_LIB([ibverbs], [ibv_open_device], [:],
            [odp_verbs_note="no (libibverbs doesn't link)"])],
        [odp_verbs_note="no (infiniband/verbs.h missing: install libibverbs-dev)"])
    AM_CONDITIONAL([HAVE_VERBS], [test "x$odp_verbs_note" = xyes])
])

AC_DEFUN([ODP_GTEST], [
    odp_gtest_note=yes
    AC_CHECK_HEADER([gtest/gtest.h], [],
        [odp_gtest_note="no (gtest/gtest.h missing: install libgtest-dev)"])
    AM_CONDITIONAL([HAVE_GTEST], [test "x$odp_gtest_note" = xyes])
])

AC_DEFUN([ODP_SUMMARY], [
    AC_MSG_NOTICE([

  $PACKAGE_NAME $PACKAGE_VERSION, prefix $prefix

    libodp and tools     $odp_verbs_note
    Open MPI BTL         $odp_ompi_note
    UCX transport        $odp_ucx_note
    kernel module        $odp_kernel_note
    MPI benchmarks       $odp_mpi_note
    unit tests           $odp_gtest_note
    sanitizers           $enable_sanitizers
])
])
