/* SPDX-License-Identifier: Apache-2.0
 * Runs all families on 4 ranks; TAP from rank 0. */
#include "shim/mpi/test/comms.h"

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	begin();
	family("dup", test_dup);
	family("split", test_split);
	family("create and create_group", test_create);
	family("groups", test_groups);
	family("cartesian topologies", test_cart);
	family("graphs", test_graph);
	family("distributed graphs", test_dist_graph);
	family("intercommunicators", test_intercomm);
	family("hints", test_hints);
	family("a communicator freed with a receive pending", test_freed_pending);
	family("forty communicators, made and freed", test_forty);
	family("pending collectives", test_pending);
	family("pending collectives in place", test_pending_in_place);
	family("pending neighbourhood collectives", test_pending_neighbours);
	family("a pending MPI_Comm_idup", test_pending_idup);
	family("many MPI_Comm_idups at once", test_many_idups);
	family("pending collectives on overlapping communicators", test_pending_overlapping);
	family("a collective complete in some ranks only", test_complete_in_some);
	family("persistent collectives", test_persistent);
	family("pending persistent collectives", test_persistent_pending);
	family("persistent collectives freed in some ranks", test_persistent_freed);
	family("messages that no rank receives", test_lost_messages);
	family("a large message that no rank receives", test_lost_send);
	family("nothing is left of freed communicators", test_nothing_is_left);
	family("a communicator disconnected with persistent requests",
	       test_disconnected_under_requests);
	family("a root far ahead", test_root_ahead);
	family("overlapping communicators", test_overlapping);
	family("ranks behind that need messages", test_messages_needed);
	family("communicators made and freed while ranks are behind", test_create_and_free);
	family("arguments that are not significant", test_insignificant);
	return end();
}
