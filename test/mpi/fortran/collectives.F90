! SPDX-License-Identifier: Apache-2.0
! Blocking and non-blocking collectives; the non-blocking ones are completed in a later step.
#include "way.h"

module collectives
  use callbacks
  use messages
  implicit none
  integer, parameter, private :: MOST = 16
  HANDLE(Op), private :: first_of

contains
  subroutine collectives_begin
    integer :: ierr
    call MPI_Op_create(first, .false., first_of, ierr)
  end subroutine

  subroutine collectives_end
    integer :: ierr
    call MPI_Op_free(first_of, ierr)
  end subroutine

  ! ---- blocking: given(r, q, i) is rank r's i-th number for rank q

  integer function given(r, q, i)
    integer, intent(in) :: r, q, i
    given = small(key_of(r, q), i)
  end function

  subroutine same(got, want, what)
    integer, intent(in) :: got(:), want(:)
    character(len=*), intent(in) :: what
    call need(all(got == want), what)
    call tally(sum(got / 4096))
  end subroutine

  subroutine coll
    integer :: c, n, root, ierr
    c = draw_comm()
    n = 1 + draw(MOST)
    root = draw(of(c)%n)
    select case (draw(4))
    case (0)
       call rooted(of(c)%comm, of(c)%n, of(c)%rank, n, root, draw(4))
    case (1)
       call exchanges(of(c)%comm, of(c)%n, of(c)%rank, n, draw(4))
    case (2)
       call reductions(of(c)%comm, of(c)%n, of(c)%rank, n, root, draw(8))
    case default
       if (of(c)%rank >= 0) call MPI_Barrier(of(c)%comm, ierr)
    end select
  end subroutine

  subroutine rooted(comm, p, me_here, n, root, which)
    HANDLE(Comm), intent(in) :: comm
    integer, intent(in) :: p, me_here, n, root, which
    integer :: a(n * p), b(n * p), counts(p), places(p), i, r, ierr
    if (me_here < 0) return
    a = [((given(me_here, r, i), i = 1, n), r = 0, p - 1)]
    b = UNTOUCHED
    counts = [(1 + mod(r + n, n), r = 0, p - 1)]
    places = [(r * n, r = 0, p - 1)]
    select case (which)
    case (0)
       if (me_here == root) b(1:n) = a(1:n)
       call MPI_Bcast(b, n, MPI_INTEGER, root, comm, ierr)
       call same(b(1:n), [(given(root, 0, i), i = 1, n)], 'Bcast')
    case (1)
       call MPI_Gather(a, n, MPI_INTEGER, b, n, MPI_INTEGER, root, comm, ierr)
       if (me_here == root) call same(b, [((given(r, 0, i), i = 1, n), r = 0, p - 1)], 'Gather')
    case (2)
       call MPI_Scatter(a, n, MPI_INTEGER, b, n, MPI_INTEGER, root, comm, ierr)
       call same(b(1:n), [(given(root, me_here, i), i = 1, n)], 'Scatter')
    case default
       call MPI_Gatherv(a, counts(me_here + 1), MPI_INTEGER, b, counts, places, MPI_INTEGER, root, &
            comm, ierr)
       do r = 0, merge(p, 0, me_here == root) - 1
          call same(b(r * n + 1:r * n + counts(r + 1)), [(given(r, 0, i), i = 1, counts(r + 1))], &
               'Gatherv')
       end do
    end select
  end subroutine

  subroutine exchanges(comm, p, me_here, n, which)
    HANDLE(Comm), intent(in) :: comm
    integer, intent(in) :: p, me_here, n, which
    integer :: a(n * p), b(n * p), counts(p), places(p), i, r, ierr
    if (me_here < 0) return
    a = [((given(me_here, r, i), i = 1, n), r = 0, p - 1)]
    b = UNTOUCHED
    counts = n
    places = [((p - 1 - r) * n, r = 0, p - 1)]
    select case (which)
    case (0)
       call MPI_Allgather(a, n, MPI_INTEGER, b, n, MPI_INTEGER, comm, ierr)
       call same(b, [((given(r, 0, i), i = 1, n), r = 0, p - 1)], 'Allgather')
    case (1)
       call MPI_Alltoall(a, n, MPI_INTEGER, b, n, MPI_INTEGER, comm, ierr)
       call same(b, [((given(r, me_here, i), i = 1, n), r = 0, p - 1)], 'Alltoall')
    case (2)
       call MPI_Allgatherv(a, n, MPI_INTEGER, b, counts, places, MPI_INTEGER, comm, ierr)
       call same(b, [((given(r, 0, i), i = 1, n), r = p - 1, 0, -1)], 'Allgatherv')
    case default
       call MPI_Alltoallv(a, counts, places, MPI_INTEGER, b, counts, places, MPI_INTEGER, comm, &
            ierr)
       call same(b, [((given(r, p - 1 - me_here, i), i = 1, n), r = p - 1, 0, -1)], 'Alltoallv')
    end select
  end subroutine

  ! The sum over ranks from … to.
  function summed(from, to, n)
    integer, intent(in) :: from, to, n
    integer :: summed(n), i, r
    summed = [(sum([(given(r, 0, i), r = from, to)]), i = 1, n)]
  end function

  subroutine reductions(comm, p, me_here, n, root, which)
    HANDLE(Comm), intent(in) :: comm
    integer, intent(in) :: p, me_here, n, root, which
    integer :: a(n * p), b(n), i, r, ierr
    if (me_here < 0) return
    a = [((given(me_here, r, i), i = 1, n), r = 0, p - 1)]
    b = UNTOUCHED
    select case (which)
    case (0)
       call MPI_Allreduce(a, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
       call same(b, summed(0, p - 1, n), 'Allreduce')
    case (1)
       b = a(1:n)
       call MPI_Allreduce(MPI_IN_PLACE, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
       call same(b, summed(0, p - 1, n), 'Allreduce in place')
    case (2)
       call MPI_Allreduce(a, b, n, MPI_INTEGER, MPI_MAX, comm, ierr)
       call same(b, [(maxval([(given(r, 0, i), r = 0, p - 1)]), i = 1, n)], &
            'Allreduce of a maximum')
    case (3)
       call MPI_Allreduce(a, b, n, MPI_INTEGER, first_of, comm, ierr)
       call same(b, [(given(0, 0, i), i = 1, n)], 'Allreduce by an operation of our own')
    case (4)
       call MPI_Reduce(a, b, n, MPI_INTEGER, MPI_SUM, root, comm, ierr)
       if (me_here == root) call same(b, summed(0, p - 1, n), 'Reduce')
    case (5)
       call MPI_Scan(a, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
       call same(b, summed(0, me_here, n), 'Scan')
    case (6)
       call MPI_Exscan(a, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
       if (me_here > 0) call same(b, summed(0, me_here - 1, n), 'Exscan')
    case default
       call MPI_Reduce_scatter_block(a, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
       call same(b, [(sum([(given(r, me_here, i), r = 0, p - 1)]), i = 1, n)], &
            'Reduce_scatter_block')
    end select
  end subroutine

  ! ---- non-blocking: the result is a transfer whose expected data is value(key, 1…)

  subroutine begin_result(s, c, n, key, due)
    integer, intent(out) :: s
    integer, intent(in) :: c, n, key, due
    s = slot()
    t(s)%state = UNDER_WAY
    t(s)%receives = .true.
    t(s)%source = -1
    t(s)%c = c
    t(s)%k = 1
    t(s)%n = n
    t(s)%key = key
    t(s)%due = due
    call clear(s)
  end subroutine

  ! This rank's numbers: a transfer without a request, kept until the result has arrived.
  subroutine begin_input(s, result)
    integer, intent(out) :: s
    integer, intent(in) :: result
    s = slot()
    t(s) = t(result)
    t(s)%receives = .false.
    t(s)%request = MPI_REQUEST_NULL
  end subroutine

  subroutine nonblocking
    integer :: c, n, root, which, due, s, in, i, key, ierr
    c = draw_comm()
    n = 1 + draw(COUNT_MOST)
    root = draw(of(c)%n)
    which = draw(5)
    due = step + draw(AHEAD)
    key = key_of(which, 70)
    if (of(c)%rank < 0) return
    call begin_result(s, c, n, key, due)
    if (which >= 2) call begin_input(in, s)
    select case (which)
    case (0)
       t(s)%receives = .false.
       call MPI_Ibarrier(of(c)%comm, t(s)%request, ierr)
    case (1)
       if (of(c)%rank == root) call fill(s, 1, n, key)
       call MPI_Ibcast(pool(place(s)), n, MPI_INTEGER, root, of(c)%comm, t(s)%request, ierr)
    case (2)
       ! all ranks have the same numbers, which are the maximum
       call fill(in, 1, n, key)
       call MPI_Iallreduce(pool(place(in)), pool(place(s)), n, MPI_INTEGER, MPI_MAX, of(c)%comm, &
            t(s)%request, ierr)
    case (3)
       ! one number of each rank, or its n-th part of a stream
       n = max(1, n / of(c)%n)
       t(s)%n = n * of(c)%n
       pool(place(in):place(in) + n - 1) = [(value(key, of(c)%rank * n + i), i = 1, n)]
       call MPI_Iallgather(pool(place(in)), n, MPI_INTEGER, pool(place(s)), n, MPI_INTEGER, &
            of(c)%comm, t(s)%request, ierr)
    case default
       n = max(1, n / of(c)%n)
       t(s)%n = n * of(c)%n
       pool(place(in):place(in) + n * of(c)%n - 1) = &
            [(value(key, of(c)%rank * n + 1 + mod(i - 1, n)), i = 1, n * of(c)%n)]
       call MPI_Ialltoall(pool(place(in)), n, MPI_INTEGER, pool(place(s)), n, MPI_INTEGER, &
            of(c)%comm, t(s)%request, ierr)
    end select
  end subroutine
end module
