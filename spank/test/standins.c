/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/standins.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

#define HERE "/proc/self/exe"
#define NOWHERE "/nonexistent"

/* LD_PRELOAD for programs without MPI and CUDA, with the preload in dir. */
static const char *preload_in(const char *dir)
{
	static struct gck_standins s;
	static struct gck_conf c;
	struct gck_options o = {.mpi = GCK_MPI_NONE, .cuda = GCK_GPU_NONE};

	snprintf(c.preload, sizeof c.preload, "%s/preload.so", dir);
	return gck_standins_choose(&s, &c, "gpuckpt.conf", &o, NULL) ? "" : s.preload;
}

/* musl's loader, which does not know $LIB, must not find the library. */
static void test_lib_token(void)
{
	char dir[] = "/tmp/gck-standins-XXXXXX", plain[64], token[64], link[64];

	if (!mkdtemp(dir))
		return;
	snprintf(plain, sizeof plain, "%s/preload.so", dir);
	snprintf(token, sizeof token, "%s/$LIB/preload.so", dir);
	is_str(preload_in(dir), plain, "without links LD_PRELOAD has the configured path");
	close(open(plain, O_WRONLY | O_CREAT, 0644));
	snprintf(link, sizeof link, "%s/lib64", dir);
	mkdir(link, 0755);
	snprintf(link, sizeof link, "%s/lib64/preload.so", dir);
	ok(symlink("../preload.so", link) == 0, "make install has made the link for $LIB");
	is_str(preload_in(dir), token, "with them it has $LIB, which only glibc's loader replaces");
	unlink(link);
	unlink(plain);
	snprintf(link, sizeof link, "%s/lib64", dir);
	rmdir(link);
	rmdir(dir);
}

/* The engine that is chosen with the stand-in in dir; NULL: the driver's own, or it is refused. */
static const char *engine_in(const char *dir, enum gck_gpu choice, struct gck_error *err)
{
	static struct gck_standins s;
	static struct gck_conf c;
	struct gck_options o = {.mpi = GCK_MPI_NONE, .cuda = choice};

	snprintf(c.cuda, sizeof c.cuda, "%s/cuda.so", dir);
	return gck_standins_choose(&s, &c, "gpuckpt.conf", &o, err) ? NULL : s.cuda_engine;
}

/* The driver's library gets a namespace, for which the stand-in loads two libraries. */
static void test_replay(void)
{
	static const char *const names[] = {"cuda.so", "libgpuckpt-root.so", "libgpuckpt-end.so"};
	char dir[] = "/tmp/gck-standins-XXXXXX", path[3][64];
	struct gck_error err = {0};

	if (!mkdtemp(dir))
		return;
	for (int i = 0; i < 3; i++) {
		ok(all_of(!engine_in(dir, GCK_GPU_REPLAY, &err), strstr(err.text, names[i]),
			  strstr(err.text, "CudaPath")), "replay: %s", err.text);
		is_str(engine_in(dir, GCK_GPU_NVIDIA, &err), NULL, "nvidia: the driver's own way");
		snprintf(path[i], sizeof path[i], "%s/%s", dir, names[i]);
		close(open(path[i], O_WRONLY | O_CREAT, 0644));
	}
	is_str(engine_in(dir, GCK_GPU_REPLAY, &err), "replay", "replay: with all its libraries");
	is_str(engine_in(dir, GCK_GPU_NVIDIA, &err), "auto", "nvidia: then either way");
	is_str(engine_in(dir, GCK_GPU_IMAGE, &err), NULL, "image: the driver's own way");
	is_str(engine_in(dir, GCK_GPU_NONE, &err), NULL, "none: none");
	for (int i = 0; i < 3; i++)
		unlink(path[i]);
	rmdir(dir);
}

int main(void)
{
	struct gck_error err = {0};

	test_lib_token();
	test_replay();
	is_int(gck_cuda_wanted(GCK_GPU_AUTO, HERE, HERE, &err), 1, "auto: with a driver");
	is_int(gck_cuda_wanted(GCK_GPU_AUTO, HERE, NOWHERE, &err), 0, "auto: not without a driver");
	is_int(gck_cuda_wanted(GCK_GPU_AUTO, NOWHERE, HERE, &err), 0,
	       "nor without the stand-in");
	is_int(gck_cuda_wanted(GCK_GPU_NVIDIA, HERE, NOWHERE, &err), 1, "nvidia: always");
	is_int(gck_cuda_wanted(GCK_GPU_NVIDIA, NOWHERE, HERE, &err), -1,
	       "but the stand-in must exist");
	ok(all_of(strstr(err.text, NOWHERE), strstr(err.text, "CudaPath")),
	   "the error names it: %s",
	   err.text);
	is_int(gck_cuda_wanted(GCK_GPU_IMAGE, HERE, NOWHERE, &err), 1, "image: always");
	is_int(gck_cuda_wanted(GCK_GPU_IMAGE, NOWHERE, HERE, &err), -1,
	       "but the stand-in must exist");
	ok(!!strstr(err.text, "cuda=image"), "the error names the option: %s", err.text);
	is_int(gck_cuda_wanted(GCK_GPU_REPLAY, HERE, NOWHERE, &err), 1, "replay: always");
	is_int(gck_cuda_wanted(GCK_GPU_NONE, HERE, HERE, &err), 0, "none: never");
	return tap_done();
}
