/* SPDX-License-Identifier: Apache-2.0
 * A 32-bit program, without libc's headers and start files: gcc -m32 needs no package for it. */
int puts(const char *text);
_Noreturn void exit(int status);
void _start(void);

__attribute__((force_align_arg_pointer)) void _start(void)
{
	puts("32 bits");
	exit(3);
}
