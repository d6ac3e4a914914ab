! SPDX-License-Identifier: Apache-2.0
! The three ways to call MPI: compiled with MPIFH, USEMPI or USEMPIF08 defined.
#ifdef USEMPIF08
#define HANDLE(x) type(MPI_/**/x)
#define STATUSES(s,n) type(MPI_Status) :: s(n)
#define STATUS_OF(s,i) s(i)
#define SOURCE_OF(s,i) s(i)%MPI_SOURCE
#define TAG_OF(s,i) s(i)%MPI_TAG
#else
#define HANDLE(x) integer
#define STATUSES(s,n) integer :: s(MPI_STATUS_SIZE,n)
#define STATUS_OF(s,i) s(:,i)
#define SOURCE_OF(s,i) s(MPI_SOURCE,i)
#define TAG_OF(s,i) s(MPI_TAG,i)
#endif
