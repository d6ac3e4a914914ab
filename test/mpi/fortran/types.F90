! SPDX-License-Identifier: Apache-2.0
! Datatypes, each described by the places of its integers in the order of its type map; buffers of
! their elements in one pool, of which each integer is checked, also those between the data.
#include "way.h"

module types
  use plan
  implicit none
  integer, parameter :: KINDS = 6, PLACES = 4, ROOM = 1200, SLOTS = 160, COUNT_MOST = 100
  integer, parameter :: UNTOUCHED = -77

  HANDLE(Datatype) :: type_of(KINDS)
  integer, parameter :: size_of(KINDS) = [1, 2, 3, 3, 3, 4]
  integer, parameter :: extent_of(KINDS) = [1, 4, 4, 3, 5, 9]
  integer, parameter :: at(PLACES, KINDS) = reshape([0, 0, 0, 0, 0, 2, 0, 0, 3, 0, 1, 0, 0, 1, 2, &
       0, 4, 1, 2, 0, 1, 2, 4, 5], [PLACES, KINDS])
  integer, target, asynchronous, save :: pool(ROOM * SLOTS)

contains
  subroutine make_type(k)
    integer, intent(in) :: k
    HANDLE(Datatype) :: bare
    integer(kind=MPI_ADDRESS_KIND) :: lb, extent, bytes(2)
    integer :: ierr
    lb = 0
    extent = 4 * extent_of(k)
    select case (k)
    case (1)
       call MPI_Type_dup(MPI_INTEGER, bare, ierr)
    case (2)
       call MPI_Type_vector(2, 1, 2, MPI_INTEGER, bare, ierr)
    case (3)
       call MPI_Type_indexed(2, [1, 2], [3, 0], MPI_INTEGER, bare, ierr)
    case (4)
       call MPI_Type_contiguous(3, MPI_INTEGER, bare, ierr)
    case (5)
       bytes = [16, 4]
       call MPI_Type_create_struct(2, [1, 2], bytes, [MPI_INTEGER, MPI_INTEGER], bare, ierr)
    case default
       call MPI_Type_create_subarray(2, [3, 3], [2, 2], [1, 0], MPI_ORDER_FORTRAN, MPI_INTEGER, &
            bare, ierr)
    end select
    call MPI_Type_create_resized(bare, lb, extent, type_of(k), ierr)
    call MPI_Type_commit(type_of(k), ierr)
    call MPI_Type_free(bare, ierr)
  end subroutine

  subroutine types_begin
    integer :: k
    do k = 1, KINDS
       call make_type(k)
    end do
  end subroutine

  subroutine types_end
    integer :: k, ierr
    do k = 1, KINDS
       call MPI_Type_free(type_of(k), ierr)
    end do
  end subroutine

  ! Frees a type, even with pending transfers, and makes it again; checks MPI's data about one.
  subroutine type_step
    integer :: k, bytes, ierr, packed(COUNT_MOST * PLACES), position
    integer(kind=MPI_ADDRESS_KIND) :: lb, extent
    k = 1 + draw(KINDS)
    call MPI_Type_free(type_of(k), ierr)
    call make_type(k)
    call MPI_Type_size(type_of(k), bytes, ierr)
    call MPI_Type_get_extent(type_of(k), lb, extent, ierr)
    call need(bytes == 4 * size_of(k) .and. lb == 0 .and. extent == 4 * extent_of(k), &
         'a type''s size')
    call fill(SLOTS, k, 10, key_of(k, 0))
    position = 0
    call MPI_Pack(pool(place(SLOTS)), 10, type_of(k), packed, 4 * size(packed), position, &
         MPI_COMM_WORLD, ierr)
    call clear(SLOTS)
    position = 0
    call MPI_Unpack(packed, 4 * size(packed), position, pool(place(SLOTS)), 10, type_of(k), &
         MPI_COMM_WORLD, ierr)
    call check(SLOTS, k, 10, key_of(k, 0), 'what was packed and unpacked')
  end subroutine

  ! ---- the pool: slot s is pool(place(s)) and ROOM integers from there

  integer function place(s)
    integer, intent(in) :: s
    place = (s - 1) * ROOM + 1
  end function

  subroutine clear(s)
    integer, intent(in) :: s
    pool(place(s):place(s) + ROOM - 1) = UNTOUCHED
  end subroutine

  subroutine fill(s, k, n, key)
    integer, intent(in) :: s, k, n, key
    integer :: e, i
    call clear(s)
    do e = 0, n - 1
       do i = 1, size_of(k)
          pool(place(s) + e * extent_of(k) + at(i, k)) = value(key, e * size_of(k) + i)
       end do
    end do
  end subroutine

  subroutine check(s, k, n, key, what)
    integer, intent(in) :: s, k, n, key
    character(len=*), intent(in) :: what
    integer :: got(ROOM)
    got = pool(place(s):place(s) + ROOM - 1)
    call fill(s, k, n, key)
    call need(all(got == pool(place(s):place(s) + ROOM - 1)), what)
    call tally(sum(got / ROOM))
  end subroutine
end module
