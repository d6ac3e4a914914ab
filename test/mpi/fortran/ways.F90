! SPDX-License-Identifier: Apache-2.0
! For the three ways to call MPI (way.h). Each result is checked; the line at the end depends only
! on the number of ranks. Each twentieth round calls the stand-in's test hook, if there is one, with
! a receive and a persistent send pending.
#include "way.h"

program ways
  use callbacks
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine cycle_now() bind(C, name='cycle_now')
    end subroutine
  end interface
  integer, parameter :: n = 64, rounds = 40
  integer :: ierr, left, right, i, round, length, position, wait_at, key
  integer :: a(n), b(n), total(n), outs(4), nout
  integer(kind=MPI_ADDRESS_KIND) :: extent, lb, kept, extra
  logical :: flag, periods(1)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=16) :: word
  character :: packed(256)
  HANDLE(Comm) :: comm, grid
  HANDLE(Request) :: req(4), steady
  HANDLE(Datatype) :: row
  HANDLE(Op) :: compose
  HANDLE(Info) :: info
  HANDLE(Errhandler) :: handler
  STATUSES(st, 1)
  integer :: class, code
  double precision :: own, sums

  digest = 0
  seed = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  left = mod(me + ranks - 1, ranks)
  right = mod(me + 1, ranks)

  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_set_name(comm, 'a name with blanks   ', ierr)
  periods(1) = .true.
  call MPI_Cart_create(comm, 1, [ranks], periods, .false., grid, ierr)
  call MPI_Type_vector(4, 2, 4, MPI_INTEGER, row, ierr)
  call MPI_Type_commit(row, ierr)
  call MPI_Op_create(first, .false., compose, ierr)
  extra = 5
  call MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, key, extra, ierr)
  kept = 1234567890123_MPI_ADDRESS_KIND
  call MPI_Comm_set_attr(comm, key, kept, ierr)
  call MPI_Comm_create_errhandler(on_error, handler, ierr)
  call MPI_Comm_set_errhandler(comm, handler, ierr)
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, ' key ', ' a value ', ierr)
  call MPI_Send_init(a, n, MPI_INTEGER, right, 7, comm, steady, ierr)

  do round = 1, rounds
     step = round
     ! a ring, with a persistent send and a receive from any source
     a = [(i * round + me, i = 1, n)]
     call MPI_Irecv(b, n, MPI_INTEGER, MPI_ANY_SOURCE, 7, comm, req(1), ierr)
     call MPI_Start(steady, ierr)
     if (mod(round, 20) == 0) call cycle_now()
     call MPI_Wait(req(1), STATUS_OF(st, 1), ierr)
     call MPI_Wait(steady, MPI_STATUS_IGNORE, ierr)
     call MPI_Get_count(STATUS_OF(st, 1), MPI_INTEGER, length, ierr)
     call need(SOURCE_OF(st, 1) == left .and. length == n, 'status of the ring')
     call need(all(b == [(i * round + left, i = 1, n)]), 'data of the ring')
     digest = digest * 31 + sum(b)

     ! every second pair of a derived type, and the index from Waitany
     b = -1
     call MPI_Irecv(b, 1, row, left, 8, grid, req(1), ierr)
     req(2) = MPI_REQUEST_NULL
     call MPI_Isend(a, 1, row, right, 8, grid, req(3), ierr)
     req(4) = MPI_REQUEST_NULL
     call MPI_Waitany(2, req, wait_at, STATUS_OF(st, 1), ierr)
     call need(wait_at == 1, 'index of Waitany')
     call MPI_Waitsome(2, req(3:4), nout, outs, MPI_STATUSES_IGNORE, ierr)
     call need(nout == 1 .and. outs(1) == 1, 'index of Waitsome')
     call need(b(1) == round + left .and. b(3) == -1 .and. b(5) == 5 * round + left, &
          'a strided message')

     ! in place, and a user operation
     total = a
     call MPI_Allreduce(MPI_IN_PLACE, total, n, MPI_INTEGER, MPI_SUM, comm, ierr)
     call need(total(2) == ranks * 2 * round + ranks * (ranks - 1) / 2, 'a sum in place')
     b = [(me + i, i = 1, n)]
     call MPI_Allreduce(b, total, n, MPI_INTEGER, compose, comm, ierr)
     call need(all(total == [(i, i = 1, n)]), 'an operation of our own')
     digest = digest * 31 + total(n)
  end do

  ! queries of the objects at the end
  call MPI_Comm_get_name(comm, name, length, ierr)
  call need(name == 'a name with blanks' .and. length == 18, 'a communicator''s name')
  call MPI_Comm_get_attr(comm, key, extra, flag, ierr)
  call need(flag .and. extra == kept, 'an attribute')
  call MPI_Comm_dup(comm, grid, ierr)
  call MPI_Comm_get_attr(grid, key, extra, flag, ierr)
  call need(flag .and. extra == kept + 5, 'a copied attribute')
  call MPI_Comm_free(grid, ierr)
  call MPI_Info_get(info, 'key', 16, word, flag, ierr)
  call need(flag .and. word == 'a value', 'an info value')
  call MPI_Info_get(info, 'none', 16, word, flag, ierr)
  call need(.not. flag, 'an info key that is not there')
  call MPI_Type_get_extent(row, lb, extent, ierr)
  call need(lb == 0 .and. extent == 56, 'an extent')
  errors = 0
  call MPI_Send(a, 1, MPI_INTEGER, ranks + 5, 0, comm, ierr)
  call need(errors == 1 .and. ierr /= MPI_SUCCESS, 'an error handler')
  code = ierr
  call MPI_Error_class(code, class, ierr)
  call need(class == MPI_ERR_RANK, 'an error class')
  call MPI_Error_string(class, text, length, ierr)
  call need(index(text, 'rank') > 0, 'an error text')
  position = 0
  call MPI_Pack(a, n / 4, MPI_INTEGER, packed, 256, position, comm, ierr)
  call need(position == n, 'a packed position')
  call MPI_Request_free(steady, ierr)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, kept, flag, ierr)
  call need(flag .and. kept >= 32767, 'MPI_TAG_UB')
  call MPI_Type_free(row, ierr)
  call MPI_Op_free(compose, ierr)
  call MPI_Info_free(info, ierr)
  call MPI_Comm_free(comm, ierr)
  own = dble(digest)
  call MPI_Reduce(own, sums, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (me == 0) print '(a,i0,a,es24.16)', 'fortran: ', ranks, ' ranks: ', sums
  call MPI_Finalize(ierr)
end program
