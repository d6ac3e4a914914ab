/* SPDX-License-Identifier: Apache-2.0
 * Info objects over a restart: their keys and values, in their order. All their functions are
 * generated. */
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/info.h"
#include "shim/mpi/part.h"
#include "shim/mpi/real.h"
#include "shim/mpi/wrap.h"

struct pair {
	char *key, *value;
};

static struct saved {
	struct gck_mpi_handle *h;
	struct pair *pairs;
	int n;
} *saved;
static size_t nsaved;

MPI_Info gck_mpi_info_of_real(MPI_Info real)
{
	return gck_mpi_wrap(GCK_MPI_INFO, real);
}

static void forget(void)
{
	for (size_t i = 0; i < nsaved; i++) {
		for (int j = 0; j < saved[i].n; j++) {
			free(saved[i].pairs[j].key);
			free(saved[i].pairs[j].value);
		}
		free(saved[i].pairs);
	}
	free(saved);
	saved = NULL;
	nsaved = 0;
}

static int read_pair(MPI_Info real, int n, struct pair *p)
{
	char key[MPI_MAX_INFO_KEY + 1], *value;
	int length, there, rc;

	rc = gck_mpi_real.Info_get_nthkey(real, n, key);
	if (rc == MPI_SUCCESS)
		rc = gck_mpi_real.Info_get_valuelen(real, key, &length, &there);
	if (rc != MPI_SUCCESS)
		return rc;
	value = calloc(1, (size_t)length + 1);
	if (!value)
		return MPI_ERR_NO_MEM;
	p->value = value;
	p->key = strdup(key);
	if (!p->key)
		return MPI_ERR_NO_MEM;
	return gck_mpi_real.Info_get(real, key, length, value, &there);
}

static int read_info(struct saved *s)
{
	int n, rc = gck_mpi_real.Info_get_nkeys(s->h->real, &n);

	if (rc != MPI_SUCCESS || !n)
		return rc;
	s->pairs = calloc((size_t)n, sizeof(*s->pairs));
	if (!s->pairs)
		return MPI_ERR_NO_MEM;
	s->n = n;
	for (int i = 0; i < n && rc == MPI_SUCCESS; i++)
		rc = read_pair(s->h->real, i, &s->pairs[i]);
	return rc;
}

static int save(struct gck_error *err)
{
	size_t n = 0;

	forget();
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_INFO); h; h = h->next)
		n++;
	saved = calloc(n, sizeof(*saved));
	if (n && !saved)
		return gck_fail(err, ENOMEM, "no memory to save %zu MPI info objects", n);
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_INFO); h; h = h->next) {
		int rc;

		saved[nsaved].h = h;
		rc = read_info(&saved[nsaved++]);
		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI info object %zu of %zu cannot be read "
					"from the MPI library: MPI error %d", nsaved, n, rc);
	}
	return 0;
}

static int make(const struct saved *s)
{
	MPI_Info real;
	int rc = gck_mpi_real.Info_create(&real);

	if (rc != MPI_SUCCESS)
		return rc;
	gck_mpi_handle_set_real(s->h, real);
	for (int i = 0; i < s->n && rc == MPI_SUCCESS; i++)
		rc = gck_mpi_real.Info_set(real, s->pairs[i].key, s->pairs[i].value);
	return rc;
}

static int rebuild(struct gck_error *err)
{
	for (size_t i = 0; i < nsaved; i++) {
		int rc = make(&saved[i]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI info object %zu of %zu cannot be made "
					"again: MPI error %d", i + 1, nsaved, rc);
	}
	forget();
	return 0;
}

const struct gck_mpi_part gck_mpi_info_part = {"info", save, rebuild, NULL};
