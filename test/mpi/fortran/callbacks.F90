! SPDX-License-Identifier: Apache-2.0
! Callbacks of MPI: an operation, a key value's copy function, an error handler.
#include "way.h"

module callbacks
  use plan
  implicit none
  integer :: errors = 0

contains
  ! The result is the first rank's value: associative but not commutative.
#ifdef USEMPIF08
  subroutine first(invec, inoutvec, length, datatype)
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: invec, inoutvec
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: in(:), inout(:)
    call c_f_pointer(invec, in, [length])
    call c_f_pointer(inoutvec, inout, [length])
    call need(datatype == MPI_INTEGER, 'the datatype that an operation is given')
#else
  subroutine first(in, inout, length, datatype)
    integer :: length, datatype, in(length), inout(length)
    call need(datatype == MPI_INTEGER, 'the datatype that an operation is given')
#endif
    inout = in
  end subroutine

  ! The attribute of a copy is `extra` more than the original's.
  subroutine copied(comm, key, extra, value_in, value_out, flag, ierror)
    HANDLE(Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    value_out = value_in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine on_error(comm, code)
    HANDLE(Comm) :: comm
    integer :: code
    errors = errors + 1
  end subroutine
end module
