! SPDX-License-Identifier: Apache-2.0
! Shared by the parts of the Fortran traffic generator. All ranks derive the same plan from a seed:
! draw() gives the same number in all ranks, so all must call it; mine() decides how one rank does a
! step. Numbers in messages depend on a key and a place: value(key, i).
#include "way.h"

module plan
#if defined(USEMPIF08)
  use mpi_f08
#elif defined(USEMPI)
  use mpi
#endif
  implicit none
#ifdef MPIFH
  include 'mpif.h'
#endif
  integer, parameter :: i8 = selected_int_kind(18)
  integer, parameter :: RANKS_MOST = 64, COMMS = 5
  integer(i8), parameter :: PRIME = 2147483647_i8

  type community
     logical :: used = .false., grid = .false.
     HANDLE(Comm) :: comm
     integer :: n, rank                       ! rank -1: this rank is not in it
     integer :: world(0:RANKS_MOST-1)
  end type
  type(community) :: of(COMMS)                ! the first: a duplicate of the world

  integer :: seed, step, me, ranks
  integer(i8) :: digest
  character(len=200) :: scratch
  integer(i8), private :: plan_state = 1, mine_state = 1

contains
  subroutine plan_step(number)
    integer, intent(in) :: number
    integer :: i, unused
    step = number
    plan_state = 1 + mod(seed * 1000003_i8 + step * 7919_i8, PRIME - 1)
    do i = 1, 4
       unused = draw(2)
    end do
    mine_state = 1 + mod(plan_state * (me + 2), PRIME - 1)
  end subroutine

  integer function take(state, n)
    integer(i8), intent(inout) :: state
    integer, intent(in) :: n
    state = mod(state * 48271_i8, PRIME)
    take = int(mod(state / 16, int(max(n, 1), i8)))
  end function

  ! 0 … n-1
  integer function draw(n)
    integer, intent(in) :: n
    draw = take(plan_state, n)
  end function

  integer function mine(n)
    integer, intent(in) :: n
    mine = take(mine_state, n)
  end function

  integer function key_of(a, b)
    integer, intent(in) :: a, b
    key_of = int(mod(((seed * 31_i8 + step) * 1009 + a) * 127 + b, PRIME))
  end function

  integer function value(key, i)
    integer, intent(in) :: key, i
    value = int(mod(key * 1103515245_i8 + i * 69621_i8 + 12345, PRIME))
  end function

  ! small enough for sums over all ranks
  integer function small(key, i)
    integer, intent(in) :: key, i
    small = mod(value(key, i), 1000000)
  end function

  subroutine tally(number)
    integer, intent(in) :: number
    digest = mod(digest + number * 48271_i8, 1000000000000007_i8)
  end subroutine

  subroutine need(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    integer :: ierr
    if (condition) return
    print '(a,i0,a,i0,a,i0,2a)', 'traffic: seed ', seed, ' step ', step, ' rank ', me, &
         ': wrong: ', what
    flush (6)
    call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    stop 3
  end subroutine

  integer function draw_comm()
    draw_comm = 1 + draw(COMMS)
    do while (.not. of(draw_comm)%used)
       draw_comm = mod(draw_comm, COMMS) + 1
    end do
  end function
end module
