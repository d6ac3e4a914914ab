! SPDX-License-Identifier: Apache-2.0
! Communicators that are made and freed, with names and attributes; a grid and its neighbours;
! groups; an intercommunicator of two halves of the world; returned errors.
#include "way.h"

module objects
  use collectives
  implicit none
  integer, private :: keyval
  HANDLE(Errhandler), private :: handler

contains
  subroutine objects_begin
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: i, ierr
    extra = 1
    call MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, keyval, extra, ierr)
    call MPI_Comm_create_errhandler(on_error, handler, ierr)
    call MPI_Comm_dup(MPI_COMM_WORLD, of(1)%comm, ierr)
    of(1)%used = .true.
    of(1)%n = ranks
    of(1)%rank = me
    of(1)%world(0:ranks - 1) = [(i, i = 0, ranks - 1)]
    extra = 1000
    call MPI_Comm_set_attr(of(1)%comm, keyval, extra, ierr)
  end subroutine

  subroutine objects_end
    integer :: c, ierr
    do c = COMMS, 1, -1
       if (of(c)%used) call drop(c)
    end do
    call MPI_Comm_free_keyval(keyval, ierr)
    call MPI_Errhandler_free(handler, ierr)
  end subroutine

  ! Completes all pending transfers in it first.
  subroutine drop(c)
    integer, intent(in) :: c
    integer :: ierr
    call post_late(c)
    call settle(c)
    of(c)%used = .false.
    if (of(c)%rank >= 0) call MPI_Comm_free(of(c)%comm, ierr)
  end subroutine

  ! ---- communicators

  subroutine comm_step
    integer :: c, from
    c = 2 + draw(COMMS - 1)
    from = draw_comm()
    if (of(c)%used) then
       if (c /= from .and. draw(2) == 0) then
          call look(from)
          return
       end if
       call drop(c)
       return
    end if
    of(c)%grid = .false.
    select case (draw(4))
    case (0)
       call duplicate(c, from)
    case (1)
       call split(c, from, 2 + draw(2), draw(2) == 0)
    case (2)
       call of_group(c, from, draw(2))
    case default
       call grid(c, from)
    end select
    call look(c)
  end subroutine

  subroutine duplicate(c, from)
    integer, intent(in) :: c, from
    integer :: ierr
    integer(kind=MPI_ADDRESS_KIND) :: before, after
    logical :: flag, flag_after
    of(c) = of(from)
    if (of(from)%rank < 0) return
    call MPI_Comm_dup(of(from)%comm, of(c)%comm, ierr)
    call MPI_Comm_get_attr(of(from)%comm, keyval, before, flag, ierr)
    call MPI_Comm_get_attr(of(c)%comm, keyval, after, flag_after, ierr)
    call need((flag .eqv. flag_after) .and. (.not. flag .or. after == before + 1), &
         'a copied attribute')
    call MPI_Comm_set_errhandler(of(c)%comm, MPI_ERRORS_ARE_FATAL, ierr)
  end subroutine

  ! The ranks of each colour get a communicator; the program uses that of rank 0's colour, and the
  ! others free theirs.
  subroutine split(c, from, colours, backwards)
    integer, intent(in) :: c, from, colours
    logical, intent(in) :: backwards
    integer :: r, colour, ierr
    of(c)%used = .true.
    of(c)%n = 0
    of(c)%rank = -1
    do r = 0, of(from)%n - 1
       if (mod(r, colours) == 0) of(c)%n = of(c)%n + 1
    end do
    do r = 0, of(c)%n - 1
       of(c)%world(merge(of(c)%n - 1 - r, r, backwards)) = of(from)%world(r * colours)
    end do
    if (of(from)%rank < 0) return
    colour = mod(of(from)%rank, colours)
    call MPI_Comm_split(of(from)%comm, colour, merge(-of(from)%rank, of(from)%rank, backwards), &
         of(c)%comm, ierr)
    if (colour == 0) then
       call MPI_Comm_rank(of(c)%comm, of(c)%rank, ierr)
    else
       call MPI_Comm_free(of(c)%comm, ierr)
    end if
  end subroutine

  ! All ranks but one, or those of the first half.
  subroutine of_group(c, from, which)
    integer, intent(in) :: c, from, which
    HANDLE(Group) :: whole, part
    integer :: r, n, ierr
    n = of(from)%n
    of(c)%used = .true.
    of(c)%n = merge(max(1, n - 1), (n + 1) / 2, which == 0)
    of(c)%rank = -1
    of(c)%world(0:of(c)%n - 1) = of(from)%world(0:of(c)%n - 1)
    if (of(from)%rank < 0) return
    call MPI_Comm_group(of(from)%comm, whole, ierr)
    call MPI_Group_incl(whole, of(c)%n, [(r, r = 0, of(c)%n - 1)], part, ierr)
    if (which == 0) then
       call MPI_Comm_create(of(from)%comm, part, of(c)%comm, ierr)
    else if (of(from)%rank < of(c)%n) then
       call MPI_Comm_create_group(of(from)%comm, part, 3, of(c)%comm, ierr)
    end if
    if (of(from)%rank < of(c)%n) of(c)%rank = of(from)%rank
    call MPI_Group_free(whole, ierr)
    call MPI_Group_free(part, ierr)
  end subroutine

  subroutine grid(c, from)
    integer, intent(in) :: c, from
    integer :: dims(2), ierr
    of(c) = of(from)
    of(c)%grid = .true.
    if (of(from)%rank < 0) return
    dims = 0
    call MPI_Dims_create(of(from)%n, 2, dims, ierr)
    call MPI_Cart_create(of(from)%comm, 2, dims, [.true., .true.], .false., of(c)%comm, ierr)
  end subroutine

  ! ---- queries and errors

  subroutine look(c)
    integer, intent(in) :: c
    HANDLE(Group) :: here, world
    integer :: n, r, length, there(RANKS_MOST), ierr
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=32) :: wanted
    if (of(c)%rank < 0) return
    call MPI_Comm_size(of(c)%comm, n, ierr)
    call MPI_Comm_rank(of(c)%comm, r, ierr)
    call need(n == of(c)%n .and. r == of(c)%rank, 'a communicator''s size and rank')
    call MPI_Comm_group(of(c)%comm, here, ierr)
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
    call MPI_Group_translate_ranks(here, n, [(r, r = 0, n - 1)], world, there, ierr)
    call need(all(there(1:n) == of(c)%world(0:n - 1)), 'a communicator''s members')
    call MPI_Group_free(here, ierr)
    call MPI_Group_free(world, ierr)
    write (wanted, '(a,i0,a,i0)') 'traffic ', seed, ' of step ', step
    call MPI_Comm_set_name(of(c)%comm, wanted, ierr)
    call MPI_Comm_get_name(of(c)%comm, name, length, ierr)
    call need(name == wanted .and. length == len_trim(wanted), 'a communicator''s name')
    call wrong(c)
    if (of(c)%grid) call neighbours(c)
  end subroutine

  subroutine wrong(c)
    integer, intent(in) :: c
    integer :: code, class, length, ierr
    character(len=MPI_MAX_ERROR_STRING) :: text
    errors = 0
    call MPI_Comm_set_errhandler(of(c)%comm, handler, ierr)
    call MPI_Send(pool, 1, MPI_INTEGER, of(c)%n + 5, 0, of(c)%comm, code)
    call MPI_Comm_set_errhandler(of(c)%comm, MPI_ERRORS_ARE_FATAL, ierr)
    call MPI_Error_class(code, class, ierr)
    call MPI_Error_string(class, text, length, ierr)
    call need(errors == 1 .and. class == MPI_ERR_RANK .and. index(text, 'rank') > 0, 'an error')
  end subroutine

  subroutine neighbours(c)
    integer, intent(in) :: c
    integer :: from(4), got(4), d, r, ierr
    do d = 0, 1
       call MPI_Cart_shift(of(c)%comm, d, 1, from(2 * d + 1), from(2 * d + 2), ierr)
    end do
    call MPI_Neighbor_allgather(given(of(c)%rank, 0, 1), 1, MPI_INTEGER, got, 1, MPI_INTEGER, &
         of(c)%comm, ierr)
    call same(got, [(given(from(r), 0, 1), r = 1, 4)], 'Neighbor_allgather')
  end subroutine

  ! ---- an intercommunicator of the lower and the upper half of the world

  subroutine inter_step
    HANDLE(Comm) :: half, inter, whole
    integer :: lower, mine_low, n, theirs, got(RANKS_MOST), r, me_there, ierr
    logical :: high
    if (ranks < 2) return
    lower = 1 + draw(ranks - 1)
    high = me >= lower
    mine_low = merge(lower, 0, high)
    theirs = merge(0, lower, high)
    call MPI_Comm_split(of(1)%comm, merge(1, 0, high), me, half, ierr)
    call MPI_Intercomm_create(half, 0, of(1)%comm, theirs, 31000, inter, ierr)
    call MPI_Comm_remote_size(inter, n, ierr)
    call need(n == merge(lower, ranks - lower, high), 'the size of the other group')
    call MPI_Allgather(given(me, 0, 1), 1, MPI_INTEGER, got, 1, MPI_INTEGER, inter, ierr)
    call same(got(1:n), [(given(theirs + r, 0, 1), r = 0, n - 1)], 'Allgather between two groups')
    call MPI_Intercomm_merge(inter, high, whole, ierr)
    call MPI_Comm_rank(whole, me_there, ierr)
    call need(me_there == me, 'the rank in a merged communicator')
    call MPI_Comm_free(whole, ierr)
    call MPI_Comm_free(inter, ierr)
    call MPI_Comm_free(half, ierr)
  end subroutine
end module
