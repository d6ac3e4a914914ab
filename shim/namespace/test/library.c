/* SPDX-License-Identifier: Apache-2.0
 * The real library of the test. Modules use its function without needing it. */
__attribute__((visibility("default"))) int library_answer(void);

int library_answer(void)
{
	return 42;
}
