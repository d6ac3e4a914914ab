! SPDX-License-Identifier: Apache-2.0
! asker DIR: asks for a checkpoint once and appends the call's result as a line to DIR/results. Then
! it waits for DIR/end.
program asker
  use gpuckpt
  implicit none
  character(len=4000) :: dir
  logical :: ended
  integer :: result, unit

  call get_command_argument(1, dir)
  result = gck_checkpoint()
  open (newunit=unit, file=trim(dir)//'/results', position='append')
  write (unit, '(i0,a,a)') result, ' ', gck_checkpoint_error()
  close (unit)
  ended = .false.
  do while (.not. ended)
    inquire (file=trim(dir)//'/end', exist=ended)
    call sleep(1)
  end do
end program asker
