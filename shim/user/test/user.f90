! SPDX-License-Identifier: Apache-2.0
! A user's program in Fortran.
program user
  use gpuckpt
  implicit none
  integer :: one, all

  one = gck_checkpoint()
  all = gck_checkpoint_all()
  print '(i0, 1x, i0, 1x, a)', one, all, gck_checkpoint_error()
end program user
