# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# The environment in which the odp BTL is found and nothing is intercepted; to be sourced.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# UCX, which Debian's Open MPI loads, leaves libc's memory functions alone.
export UCX_MEM_EVENTS=n

# Where PMIx comes separately, as in Debian, mpirun tells the ranks to look for components in PMIx's
# folder only. Both are set, because mpirun hands the first to PMIx as well if that has none of its
# own, and PMIx complains about each file there that isn't its.
if [ -z "${OMPI_MCA_mca_base_component_path:-}" ]; then
    odp_components=$(ompi_info --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p')
    for odp_pmix in "${odp_components%/openmpi/*}"/pmix2/lib/pmix /usr/lib/*/pmix2/lib/pmix; do
        if [ -d "$odp_pmix" ]; then
            export OMPI_MCA_mca_base_component_path="$odp_components"
            export PMIX_MCA_mca_base_component_path="$odp_pmix"
            break
        fi
    done
    unset odp_components odp_pmix
fi
