! SPDX-License-Identifier: Apache-2.0
! traffic [SEED [SEEDS [STEPS [PAUSE-US [FOLDER]]]]]: random MPI programs in Fortran, one for each
! seed. Each message and result is checked, and the printed digest depends only on seed, steps and
! ranks. Files are made in FOLDER and stay there.
#include "way.h"

program main
  use storage
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function usleep(us) bind(C, name='usleep')
      import :: c_int
      integer(c_int), value :: us
    end function
  end interface
  integer, parameter :: ATTACHED = 4 * 1024 * 1024
  integer :: first_seed, seeds, steps, pause_us, ierr, length
  integer, asynchronous, save :: attached_buffer(ATTACHED)
  integer(i8) :: total
#ifdef USEMPIF08
  type(c_ptr) :: detached
#else
  integer :: detached(2) ! room for an address
#endif

  first_seed = argument(1, 1)
  seeds = argument(2, 1)
  steps = argument(3, 200)
  pause_us = argument(4, 0)
  call get_command_argument(5, scratch)
  if (scratch == ' ') scratch = '.'
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Buffer_attach(attached_buffer, 4 * ATTACHED, ierr)
  do seed = first_seed, first_seed + seeds - 1
     call run
     call MPI_Reduce(digest, total, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
     if (me /= 0) cycle
     print '(a,i0,a,i0,a,i0,a,z16.16)', 'fortran: seed ', seed, ': ', steps, ' steps on ', ranks, &
          ' ranks: ', total
     flush (6)
  end do
  call MPI_Buffer_detach(detached, length, ierr)
  call MPI_Finalize(ierr)

contains
  integer function argument(number, otherwise)
    integer, intent(in) :: number, otherwise
    character(len=32) :: word
    argument = otherwise
    call get_command_argument(number, word)
    if (word /= ' ') read (word, *) argument
  end function

  subroutine run
    integer :: s, unused
    digest = 0
    call plan_step(0)
    call types_begin
    call collectives_begin
    call objects_begin
    do s = 1, steps
       call plan_step(s)
       call post_late
       call one_step(draw(24))
       call settle
       if (pause_us > 0) unused = usleep(pause_us)
    end do
    call messages_end
    call window_end
    call file_end
    call objects_end
    call collectives_end
    call types_end
  end subroutine

  subroutine one_step(which)
    integer, intent(in) :: which
    select case (which)
    case (0:5)
       call storm
    case (6:7)
       call one_by_one
    case (8)
       call shift
    case (9:11)
       call lanes_step
    case (12:14)
       call coll
    case (15:17)
       call nonblocking
    case (18:19)
       call comm_step
    case (20)
       call type_step
    case (21)
       call inter_step
    case (22)
       call window_step
    case default
       call file_step
    end select
  end subroutine
end program
