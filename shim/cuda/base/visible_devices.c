/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/cuda/base/visible_devices.h"

#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The version of the kernel module, which the library must equal; without a module, CUDA's
 * version. */
static CUresult see_driver(const struct gck_cuda_device_calls *by, char text[32])
{
	int version = 0, fd = open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, 31);
	CUresult rc = CUDA_SUCCESS;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!*text) {
		rc = by->version(&version);
		snprintf(text, 32, "of CUDA %d.%d", version / 1000, version % 1000 / 10);
	}
	return rc;
}

/* One that the driver does not know is 0. */
static CUresult see_properties(const struct gck_cuda_device_calls *by, CUdevice device,
			       int32_t properties[GCK_CUDA_NPROPERTIES])
{
#define ATTRIBUTE(attribute, rule, text) CU_DEVICE_ATTRIBUTE_##attribute,
	static const CUdevice_attribute attributes[] = {GCK_CUDA_PROPERTIES(ATTRIBUTE)};
#undef ATTRIBUTE
	CUresult rc = CUDA_SUCCESS;

	for (int i = 0; i < GCK_CUDA_NPROPERTIES && !rc; i++) {
		int value = 0;

		rc = by->attribute(&value, attributes[i], device);
		properties[i] = rc ? 0 : value;
		rc = rc == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : rc;
	}
	return rc;
}

static CUresult see_device(const struct gck_cuda_device_calls *by, int ordinal,
			   struct gck_cuda_device *out)
{
	CUdevice device;
	CUuuid uuid;
	size_t memory;
	CUresult rc = by->get(&device, ordinal);

	if (!rc)
		rc = by->uuid(&uuid, device);
	if (!rc)
		rc = by->name(out->name, sizeof out->name, device);
	if (!rc)
		rc = by->memory(&memory, device);
	if (!rc)
		rc = see_properties(by, device, out->properties);
	if (rc)
		return rc;
	memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
	out->memory = memory;
	return CUDA_SUCCESS;
}

static bool is_in(const struct gck_cuda_devices *l, const unsigned char uuid[16])
{
	for (uint32_t i = 0; i < l->all; i++)
		if (!memcmp(l->v[i].uuid, uuid, 16))
			return true;
	return false;
}

void gck_cuda_uuid_text(const unsigned char uuid[16], char text[GCK_CUDA_UUID_TEXT])
{
	size_t at = (size_t)snprintf(text, GCK_CUDA_UUID_TEXT, "GPU");

	for (int i = 0; i < 16; i++) {
		bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

		at += (size_t)snprintf(text + at, GCK_CUDA_UUID_TEXT - at, "%s%02x",
				       group ? "-" : "", uuid[i]);
	}
}

/* Parse a UUID as the kernel module writes it. */
static bool read_uuid(const char *text, unsigned char uuid[16])
{
	unsigned int byte;
	int n = 0;

	for (text += 4; n < 16; text += 2) {
		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1)
			return false;
		uuid[n++] = (unsigned char)byte;
	}
	return true;
}

/* Whether this process may open the GPU's device file: permissions, and the devices that a cgroup
 * allows. (Nothing is opened: that can take a second.) */
static bool may_open(unsigned int minor)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof path, "/dev/nvidia%u", minor);
	return stat(path, &st) == 0 && S_ISCHR(st.st_mode) && eaccess(path, R_OK | W_OK) == 0;
}

/* Read a GPU's file of the kernel module; false: it names no GPU. */
static bool read_gpu(FILE *information, struct gck_cuda_machine_gpu *gpu)
{
	bool is_named = false;
	unsigned int minor, domain, bus, device;
	char line[128];

	*gpu = (struct gck_cuda_machine_gpu){.id = 0};
	while (fgets(line, sizeof line, information)) {
		const char *text = strstr(line, "GPU-");

		if (!strncmp(line, "GPU UUID:", 9) && text)
			is_named = read_uuid(text, gpu->uuid);
		else if (sscanf(line, "Device Minor: %u", &minor) == 1)
			gpu->may_open = may_open(minor);
		else if (sscanf(line, "Bus Location: %x:%x:%x", &domain, &bus, &device) == 3)
			gpu->id = (domain & 0xffff) << 16 | bus << 8 | device;
	}
	return is_named;
}

size_t gck_cuda_machine_gpus(struct gck_cuda_machine_gpu *gpus, size_t most)
{
	glob_t found = {0};
	size_t n = 0;
	FILE *f;

	if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && n < most; i++) {
			f = fopen(found.gl_pathv[i], "re");
			n += f && read_gpu(f, &gpus[n]);
			if (f)
				fclose(f);
		}
	}
	globfree(&found);
	return n;
}

/* Add the GPUs that are not listed and can be opened. */
static void see_hidden(struct gck_cuda_devices *out)
{
	struct gck_cuda_machine_gpu gpus[GCK_CUDA_DEVICES_MAX];
	size_t n = gck_cuda_machine_gpus(gpus, GCK_CUDA_DEVICES_MAX);

	out->all = out->n;
	for (size_t i = 0; i < n && out->all < GCK_CUDA_DEVICES_MAX; i++)
		if (gpus[i].may_open && !is_in(out, gpus[i].uuid))
			memcpy(out->v[out->all++].uuid, gpus[i].uuid, sizeof gpus[i].uuid);
}

CUresult gck_cuda_visible_devices_read(const struct gck_cuda_device_calls *by,
				       struct gck_cuda_devices *out)
{
	struct gck_cuda_devices seen = {0};
	int n = 0;
	CUresult rc = by->count(&n);

	if (!rc && n > GCK_CUDA_DEVICES_MAX)
		rc = CUDA_ERROR_NOT_SUPPORTED;
	if (!rc)
		rc = see_driver(by, seen.driver);
	for (int i = 0; !rc && i < n; i++)
		rc = see_device(by, i, &seen.v[i]);
	if (rc)
		return rc;
	seen.n = (uint32_t)n;
	see_hidden(&seen);
	*out = seen;
	return CUDA_SUCCESS;
}
