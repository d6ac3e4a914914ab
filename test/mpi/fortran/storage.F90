! SPDX-License-Identifier: Apache-2.0
! A window, whose contents each rank knows for all ranks; and files in which no word is written
! twice, so that a restarted program finds only what it wrote before in the places that it reads.
#include "way.h"

module storage
  use objects
  implicit none
  integer, parameter, private :: WORDS = 32
  integer, target, asynchronous, save :: memory(WORDS), from_there(WORDS), for_there(WORDS)
  integer, private :: model(WORDS, 0:RANKS_MOST-1)
  HANDLE(Win), private :: win
  HANDLE(File), private :: file
  logical, private :: window_made = .false., file_open = .false.
  integer, private :: written              ! numbers of each rank in the file

contains
  subroutine window_step
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    integer :: ierr
    if (.not. window_made) then
       memory = 0
       model = 0
       bytes = 4 * WORDS
       call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, of(1)%comm, win, ierr)
       window_made = .true.
    else if (draw(8) == 0) then
       call window_end
    else
       call window_epoch(1 + draw(WORDS / 2), draw(ranks), draw(3))
    end if
  end subroutine

  subroutine window_end
    integer :: ierr
    if (window_made) call MPI_Win_free(win, ierr)
    window_made = .false.
  end subroutine

  ! Each rank puts n words to the rank `by` further on, or adds them, and then gets them from there.
  subroutine window_epoch(n, by, way)
    integer, intent(in) :: n, by, way
    integer(kind=MPI_ADDRESS_KIND) :: zero
    integer :: i, r, to, ierr
    zero = 0
    to = mod(me + by, ranks)
    for_there(1:n) = [(given(me, 1, i), i = 1, n)]
    do r = 0, ranks - 1
       do i = 1, n
          model(i, mod(r + by, ranks)) = given(r, 1, i) + &
               merge(mod(model(i, mod(r + by, ranks)), 1000), 0, way == 2)
       end do
    end do
    if (way == 0) then
       call MPI_Win_fence(0, win, ierr)
       call MPI_Put(for_there, n, MPI_INTEGER, to, zero, n, MPI_INTEGER, win, ierr)
       call MPI_Win_fence(0, win, ierr)
       call MPI_Get(from_there, n, MPI_INTEGER, to, zero, n, MPI_INTEGER, win, ierr)
       call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    else
       call MPI_Win_lock(merge(MPI_LOCK_SHARED, MPI_LOCK_EXCLUSIVE, mine(2) == 0), to, 0, win, ierr)
       if (way == 2) then
          call MPI_Get(from_there, n, MPI_INTEGER, to, zero, n, MPI_INTEGER, win, ierr)
          call MPI_Win_flush(to, win, ierr)
          for_there(1:n) = for_there(1:n) + mod(from_there(1:n), 1000)
       end if
       call MPI_Put(for_there, n, MPI_INTEGER, to, zero, n, MPI_INTEGER, win, ierr)
       call MPI_Win_flush(to, win, ierr)
       call MPI_Get(from_there, n, MPI_INTEGER, to, zero, n, MPI_INTEGER, win, ierr)
       call MPI_Win_unlock(to, win, ierr)
    end if
    call same(from_there(1:n), model(1:n, to), 'what was got from a window')
    call MPI_Barrier(of(1)%comm, ierr)
    call MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win, ierr)
    call same(memory, model(:, me), 'what is in the window')
    call MPI_Win_unlock(me, win, ierr)
    call MPI_Barrier(of(1)%comm, ierr)
  end subroutine

  ! ---- files: rank r's i-th block of BLOCK numbers is the file's (i * ranks + r)-th

  subroutine file_step
    integer, parameter :: BLOCK = 8
    integer(kind=MPI_OFFSET_KIND) :: here
    HANDLE(Datatype) :: blocks, view
    integer(kind=MPI_ADDRESS_KIND) :: lb, extent
    character(len=32) :: name
    integer :: ierr
    if (file_open) then
       if (draw(10) == 0) then
          call file_end
       else
          call write_and_read(BLOCK, 1 + draw(4), draw(3))
       end if
       return
    end if
    write (name, '(a,i0,a,i0)') '/fortran.', seed, '.', step
    call MPI_File_open(of(1)%comm, trim(scratch)//name, MPI_MODE_CREATE + MPI_MODE_RDWR, &
         MPI_INFO_NULL, file, ierr)
    call need(ierr == MPI_SUCCESS, trim(scratch)//trim(name)//' cannot be opened')
    call MPI_Type_contiguous(BLOCK, MPI_INTEGER, blocks, ierr)
    lb = 0
    extent = 4 * BLOCK * ranks
    call MPI_Type_create_resized(blocks, lb, extent, view, ierr)
    call MPI_Type_commit(view, ierr)
    here = 4 * BLOCK * me
    call MPI_File_set_view(file, here, MPI_INTEGER, view, 'native', MPI_INFO_NULL, ierr)
    call MPI_Type_free(blocks, ierr)
    call MPI_Type_free(view, ierr)
    file_open = .true.
    written = 0
  end subroutine

  subroutine file_end
    integer :: ierr
    if (file_open) call MPI_File_close(file, ierr)
    file_open = .false.
  end subroutine

  ! Appends blocks, and reads all of this rank's from its pointer.
  subroutine write_and_read(block, n, way)
    integer, intent(in) :: block, n, way
    HANDLE(Request) :: request
    STATUSES(st, 1)
    integer(kind=MPI_OFFSET_KIND) :: here
    integer :: a(block * n), b(block * n), count, i, ierr
    a = [(given(me, 2, i), i = 1, block * n)]
    b = UNTOUCHED
    here = written
    if (way == 0) then
       call MPI_File_write_all(file, a, block * n, MPI_INTEGER, STATUS_OF(st, 1), ierr)
    else if (way == 1) then
       call MPI_File_write_at_all(file, here, a, block * n, MPI_INTEGER, STATUS_OF(st, 1), ierr)
    else
       call MPI_File_iwrite_at(file, here, a, block * n, MPI_INTEGER, request, ierr)
       call MPI_Wait(request, STATUS_OF(st, 1), ierr)
    end if
    call MPI_Get_count(STATUS_OF(st, 1), MPI_INTEGER, count, ierr)
    call need(count == block * n, 'how much was written to a file')
    call MPI_File_sync(file, ierr)
    call MPI_File_read_at(file, here, b, block * n, MPI_INTEGER, STATUS_OF(st, 1), ierr)
    call same(b, a, 'what was written to a file')
    written = written + block * n
    here = written
    call MPI_File_seek(file, here, MPI_SEEK_SET, ierr)
    call MPI_File_get_position(file, here, ierr)
    call need(here == written, 'the pointer of a file')
  end subroutine
end module
