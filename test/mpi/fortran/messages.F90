! SPDX-License-Identifier: Apache-2.0
! Messages: many at once, in flight over several steps, some received long after the send; one after
! another, in each mode; persistent requests that are started repeatedly.
#include "way.h"

module messages
  use types
  implicit none
  integer, parameter :: AHEAD = 8, LANES = 3
  integer, parameter :: FREE = 0, LATE = 1, UNDER_WAY = 2

  ! The pending transfer in slot s of the pool (sends, receives, collectives of the other module).
  type transfer
     integer :: state = FREE
     integer :: c, k, n, key, source, tag
     integer :: post, due                    ! the steps when it is received and completed
     logical :: receives, persistent
     HANDLE(Request) :: request
  end type
  type(transfer) :: t(SLOTS - 1)

  HANDLE(Request) :: lane(2 * LANES)
  integer :: lane_data(32, 2 * LANES) = 0, lane_round = 0
  logical :: lanes_made = .false., lanes_started = .false.
  asynchronous :: lane_data

contains
  integer function slot()
    slot = 1
    do while (t(slot)%state /= FREE)
       slot = slot + 1
       call need(slot < SLOTS, 'the generator''s pool is too small')
    end do
    t(slot)%persistent = .false.
  end function

  ! ---- completion

  subroutine ended(s, source, tag, bytes)
    integer, intent(in) :: s, source, tag, bytes
    integer :: ierr
    if (t(s)%receives) then
       if (t(s)%source >= 0) call need(source == t(s)%source .and. tag == t(s)%tag .and. &
            bytes == 4 * t(s)%n * size_of(t(s)%k), 'the status of a message')
       call check(s, t(s)%k, t(s)%n, t(s)%key, 'the data of a message')
    end if
    if (t(s)%persistent) call MPI_Request_free(t(s)%request, ierr)
    call need(t(s)%request == MPI_REQUEST_NULL, 'a request is there after its end')
    t(s)%state = FREE
  end subroutine

  subroutine ended_with(s, status)
    integer, intent(in) :: s
    STATUSES(status, 1)
    integer :: bytes, ierr
    bytes = 0
    if (t(s)%receives) call MPI_Get_count(STATUS_OF(status, 1), MPI_BYTE, bytes, ierr)
    call ended(s, SOURCE_OF(status, 1), TAG_OF(status, 1), bytes)
  end subroutine

  ! Completes in one of the ways what is due, or everything of a communicator (0: of any).
  subroutine settle(all_of)
    integer, intent(in), optional :: all_of
    HANDLE(Request) :: r(SLOTS)
    STATUSES(st, SLOTS)
    STATUSES(one, 1)
    integer :: which(SLOTS), indices(SLOTS), n, left, done, i, s, way, ierr
    logical :: flag
    n = 0
    do s = 1, SLOTS - 1
       if (t(s)%state /= UNDER_WAY) cycle
       if (present(all_of)) then
          if (all_of /= 0 .and. t(s)%c /= all_of) cycle
       else if (t(s)%due > step) then
          cycle
       end if
       if (t(s)%request == MPI_REQUEST_NULL) then  ! only kept for one that is completed now
          t(s)%state = FREE
          cycle
       end if
       n = n + 1
       r(n) = t(s)%request
       which(n) = s
    end do
    way = mine(5)
    left = n
    do while (left > 0)
       flag = .true.
       done = 1
       select case (way)
       case (0)
          call MPI_Waitall(n, r, st, ierr)
          done = n
          indices(1:n) = [(i, i = 1, n)]
       case (1)
          call MPI_Testall(n, r, flag, st, ierr)
          done = n
          indices(1:n) = [(i, i = 1, n)]
       case (2)
          call MPI_Waitany(n, r, indices(1), STATUS_OF(st, 1), ierr)
       case (3)
          call MPI_Testany(n, r, indices(1), flag, STATUS_OF(st, 1), ierr)
       case default
          call MPI_Waitsome(n, r, done, indices, st, ierr)
       end select
       if (.not. flag) cycle
       do i = 1, done
          s = which(indices(i))
          t(s)%request = r(indices(i))
          r(indices(i)) = MPI_REQUEST_NULL
          STATUS_OF(one, 1) = STATUS_OF(st, i)
          call ended_with(s, one)
       end do
       left = left - done
    end do
  end subroutine

  ! ---- receives that are posted in a later step than the send

  subroutine receive_late(s)
    integer, intent(in) :: s
    HANDLE(Message) :: message
    STATUSES(st, 1)
    integer :: way, ierr, bytes
    way = mine(4)
    call clear(s)
    t(s)%state = UNDER_WAY
    if (way == 0) then
       call MPI_Irecv(pool(place(s)), t(s)%n, type_of(t(s)%k), t(s)%source, t(s)%tag, &
            of(t(s)%c)%comm, t(s)%request, ierr)
       return
    else if (way == 1) then
       call MPI_Mprobe(t(s)%source, t(s)%tag, of(t(s)%c)%comm, message, STATUS_OF(st, 1), ierr)
       call MPI_Imrecv(pool(place(s)), t(s)%n, type_of(t(s)%k), message, t(s)%request, ierr)
       return
    else if (way == 2) then
       call MPI_Probe(t(s)%source, t(s)%tag, of(t(s)%c)%comm, STATUS_OF(st, 1), ierr)
       call MPI_Get_count(STATUS_OF(st, 1), MPI_BYTE, bytes, ierr)
       call need(bytes == 4 * t(s)%n * size_of(t(s)%k), 'the size of a probed message')
    end if
    call MPI_Recv(pool(place(s)), t(s)%n, type_of(t(s)%k), t(s)%source, t(s)%tag, of(t(s)%c)%comm, &
         STATUS_OF(st, 1), ierr)
    t(s)%request = MPI_REQUEST_NULL
    call ended_with(s, st)
  end subroutine

  subroutine post_late(all_of)
    integer, intent(in), optional :: all_of
    integer :: s
    do s = 1, SLOTS - 1
       if (t(s)%state /= LATE) cycle
       if (present(all_of)) then
          if (all_of == 0 .or. t(s)%c == all_of) call receive_late(s)
       else if (t(s)%post <= step) then
          call receive_late(s)
       end if
    end do
  end subroutine

  ! ---- the storm

  subroutine storm
    integer :: c, i, n, k, count, source, dest, mode, due, s, ierr, key
    logical :: late_ones
    c = draw_comm()
    n = 2 + draw(6)
    late_ones = draw(3) == 0
    due = step + merge(1, 0, late_ones) + draw(AHEAD - 1) ! this step has posted its late receives
    do i = 1, n
       source = draw(of(c)%n)
       dest = draw(of(c)%n)
       k = 1 + draw(KINDS)
       count = draw(COUNT_MOST)
       mode = draw(5)
       key = key_of(i, k)
       if (of(c)%rank == dest) call start_receive(c, k, count, key, source, i, due, late_ones)
       if (of(c)%rank /= source) cycle
       s = slot()
       t(s)%state = UNDER_WAY
       t(s)%receives = .false.
       t(s)%c = c
       t(s)%due = due
       call fill(s, k, count, key)
       select case (mode)
       case (0)
          call MPI_Issend(pool(place(s)), count, type_of(k), dest, tag_of(i), of(c)%comm, &
               t(s)%request, ierr)
       case (1)
          call MPI_Ibsend(pool(place(s)), count, type_of(k), dest, tag_of(i), of(c)%comm, &
               t(s)%request, ierr)
       case (2)
          call MPI_Send_init(pool(place(s)), count, type_of(k), dest, tag_of(i), of(c)%comm, &
               t(s)%request, ierr)
          call MPI_Start(t(s)%request, ierr)
          t(s)%persistent = .true.
       case default
          call MPI_Isend(pool(place(s)), count, type_of(k), dest, tag_of(i), of(c)%comm, &
               t(s)%request, ierr)
       end select
    end do
  end subroutine

  integer function tag_of(i)
    integer, intent(in) :: i
    tag_of = mod(step, 900) * 32 + i
  end function

  subroutine start_receive(c, k, n, key, source, i, due, is_late)
    integer, intent(in) :: c, k, n, key, source, i, due
    logical, intent(in) :: is_late
    integer :: s, from, ierr
    s = slot()
    t(s)%receives = .true.
    t(s)%c = c
    t(s)%k = k
    t(s)%n = n
    t(s)%key = key
    t(s)%source = source
    t(s)%tag = tag_of(i)
    t(s)%post = due
    t(s)%due = due
    t(s)%state = LATE
    if (is_late) return
    t(s)%state = UNDER_WAY
    call clear(s)
    from = source
    if (mine(3) == 0) from = MPI_ANY_SOURCE
    if (mine(4) == 0) then
       call MPI_Recv_init(pool(place(s)), n, type_of(k), from, t(s)%tag, of(c)%comm, t(s)%request, &
            ierr)
       call MPI_Start(t(s)%request, ierr)
       t(s)%persistent = .true.
    else
       call MPI_Irecv(pool(place(s)), n, type_of(k), from, t(s)%tag, of(c)%comm, t(s)%request, ierr)
    end if
  end subroutine

  ! ---- one after another

  subroutine one_by_one
    integer :: c, i, k, n, source, dest, mode, key, ierr
    c = draw_comm()
    do i = 1, 1 + draw(6)
       source = draw(of(c)%n)
       dest = draw(of(c)%n)
       k = 1 + draw(KINDS)
       n = draw(COUNT_MOST)
       mode = draw(3)
       key = key_of(i, 50)
       if (source == dest) cycle
       if (of(c)%rank == dest) then
          call start_receive(c, k, n, key, source, i, step, .true.)
          call post_late(c)
       else if (of(c)%rank == source) then
          call fill(SLOTS, k, n, key)
          select case (mode)
          case (0)
             call MPI_Send(pool(place(SLOTS)), n, type_of(k), dest, tag_of(i), of(c)%comm, ierr)
          case (1)
             call MPI_Ssend(pool(place(SLOTS)), n, type_of(k), dest, tag_of(i), of(c)%comm, ierr)
          case default
             call MPI_Bsend(pool(place(SLOTS)), n, type_of(k), dest, tag_of(i), of(c)%comm, ierr)
          end select
       end if
    end do
    call settle
  end subroutine

  subroutine shift
    integer :: c, by, n, to, from, key, s, ierr
    STATUSES(st, 1)
    c = draw_comm()
    by = 1 + draw(of(c)%n)
    n = draw(1000)
    if (of(c)%rank < 0) return
    to = mod(of(c)%rank + by, of(c)%n)
    from = mod(of(c)%rank + of(c)%n - mod(by, of(c)%n), of(c)%n)
    key = key_of(from, 60)
    s = slot()
    call fill(SLOTS, 1, n, key_of(of(c)%rank, 60))
    call clear(s)
    if (mine(2) == 0) then
       call MPI_Sendrecv(pool(place(SLOTS)), n, MPI_INTEGER, to, 1, pool(place(s)), n, &
            MPI_INTEGER, from, 1, of(c)%comm, STATUS_OF(st, 1), ierr)
       call check(s, 1, n, key, 'Sendrecv')
    else
       call MPI_Sendrecv_replace(pool(place(SLOTS)), n, MPI_INTEGER, to, 1, from, 1, of(c)%comm, &
            STATUS_OF(st, 1), ierr)
       call check(SLOTS, 1, n, key, 'Sendrecv_replace')
    end if
    call need(SOURCE_OF(st, 1) == from, 'the source that Sendrecv tells')
  end subroutine

  ! ---- persistent requests: this step starts them, or waits for them

  subroutine lanes_step
    integer :: i, ierr, right, left
    STATUSES(st, 2 * LANES)
    right = mod(me + 1, ranks)
    left = mod(me + ranks - 1, ranks)
    if (.not. lanes_made) then
       do i = 1, LANES
          call MPI_Send_init(lane_data(1, i), 32, MPI_INTEGER, right, 32000 + i, of(1)%comm, &
               lane(i), ierr)
          call MPI_Recv_init(lane_data(1, LANES + i), 32, MPI_INTEGER, left, 32000 + i, &
               of(1)%comm, lane(LANES + i), ierr)
       end do
       lanes_made = .true.
    else if (.not. lanes_started) then
       lane_round = lane_round + 1
       do i = 1, LANES
          lane_data(:, i) = value(lane_round, me * LANES + i)
       end do
       call MPI_Startall(2 * LANES, lane, ierr)
       lanes_started = .true.
    else
       call MPI_Waitall(2 * LANES, lane, st, ierr)
       do i = 1, LANES
          call need(all(lane_data(:, LANES + i) == value(lane_round, left * LANES + i)), &
               'a persistent message')
          call tally(lane_data(1, LANES + i))
       end do
       lanes_started = .false.
    end if
  end subroutine

  subroutine messages_end
    integer :: i, ierr
    call post_late(0)
    call settle(0)
    if (lanes_started) call lanes_step
    do i = 1, merge(2 * LANES, 0, lanes_made)
       call MPI_Request_free(lane(i), ierr)
    end do
    lanes_made = .false.
    lane_round = 0
  end subroutine
end module
