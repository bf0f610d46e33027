# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# The environment of tests and benchmarks, to be sourced: the one that README.md tells users to have,
# installed or of the build in ODP_BUILD, and root may run jobs.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

odp_env=$(command -v odp-env.sh) || odp_env=${ODP_BUILD:-/build}/tools/odp-env.sh
# Neither is there for another MPI, which needs none of it.
if [ -r "$odp_env" ]; then
    # shellcheck source=/dev/null
    . "$odp_env"
fi
unset odp_env
