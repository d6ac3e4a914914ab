! SPDX-License-Identifier: Apache-2.0
! gck_checkpoint(3) for Fortran. Compile it with the program's compiler and link with -lgpuckpt.
module gpuckpt
  use, intrinsic :: iso_c_binding, only: c_int, c_char, c_ptr, c_size_t, c_f_pointer
  implicit none
  private
  public :: gck_checkpoint, gck_checkpoint_all, gck_checkpoint_error

  interface
    integer(c_int) function gck_checkpoint() bind(c)
      import :: c_int
    end function gck_checkpoint

    integer(c_int) function gck_checkpoint_all() bind(c)
      import :: c_int
    end function gck_checkpoint_all

    type(c_ptr) function error_text() bind(c, name='gck_checkpoint_error')
      import :: c_ptr
    end function error_text

    integer(c_size_t) function length_of(text) bind(c, name='strlen')
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function length_of
  end interface

contains

  function gck_checkpoint_error() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    type(c_ptr) :: at
    integer :: i, n

    at = error_text()
    n = int(length_of(at))
    call c_f_pointer(at, bytes, [n])
    allocate (character(len=n) :: text)
    do i = 1, n
      text(i:i) = bytes(i)
    end do
  end function gck_checkpoint_error

end module gpuckpt
