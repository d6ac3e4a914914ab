#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GROMACS survives the death of a node: coordinates, velocities and energies are the same to the
# bit.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=gromacs.sh
. "$test_dir/gromacs.sh"

dir=$(work_dir)
gromacs_input "$dir" 2 || { echo "1..0 # SKIP $no_gromacs"; exit 0; }
gromacs_reference "$dir" 2 8000

job=$(gromacs_submit "$dir" 2 8000)
check "the step runs under gpuckpt" wait_ready "$job"
check "both ranks compute" wait_for 60 gromacs_reached "$dir" 2 300
check "able: the step can be checkpointed" alice gpuckpt able "$job"
check "create" alice gpuckpt create "$job"
check "the ranks go on" wait_for 60 gromacs_reached "$dir" 2 700
node=$(root squeue -h -j "$job" -o %B)
node_dies "${node#n}"
check "the job is requeued after its node's death" wait_for 90 job_restarted "$job" 1
check "the ranks run again" wait_ready "$job" 60
check "the job ends" wait_job "$job" COMPLETED 120
gromacs_compare "$dir" 2
nodes_back
finish
