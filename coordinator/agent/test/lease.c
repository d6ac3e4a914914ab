/* SPDX-License-Identifier: Apache-2.0
 * Leases of ranks that have no link any more: what their ends have stopped goes on. */
#include "config.h"

#include "coordinator/agent/ranks/lease.h"

#include <signal.h>
#include <unistd.h>

#include "common/base/boot_clock.h"
#include "coordinator/agent/ranks/links.h"
#include "coordinator/agent/test/fakes.h"
#include "test/support/tap.h"

#define LEASE_MS 300
#define LOOKS 6000 /* only a failure takes so many */

static struct task *task(void)
{
	return fake_agent->tasks.v[0];
}

/* The rank has read a lease; then its link is closed. */
static void begin(int64_t left_ms)
{
	fake_begin();
	task()->lease.sent_ms = gck_boot_ms() + left_ms;
	link_close(task()->link);
}

static bool stop(void)
{
	int looks = LOOKS;

	kill(task()->pid, SIGSTOP);
	while (--looks && !task_is_stopped(task()))
		usleep(10000);
	return looks;
}

static bool goes_on(void)
{
	int looks = LOOKS;

	while (--looks && task_is_stopped(task()))
		usleep(10000);
	return looks;
}

static void renew(void)
{
	lease_renew(fake_agent, gck_boot_ms() + LEASE_MS);
}

static void stopped_by_its_end(void)
{
	begin(0);
	ok(stop(), "a rank without a link is stopped at the end of its lease");
	renew();
	ok(goes_on(), "it goes on when the agent renews leases");
	ok(stop(), "it is stopped once more, which was not its lease");
	renew();
	usleep(LEASE_MS * 1000);
	ok(task_is_stopped(task()), "and stays so");
	fake_end();
}

static void stopped_before(void)
{
	begin(LEASE_MS);
	ok(stop(), "a rank without a link is stopped while its lease lasts");
	lease_look(fake_agent);
	usleep(LEASE_MS * 1000);
	renew();
	usleep(LEASE_MS * 1000);
	ok(task_is_stopped(task()), "it stays so after the lease's end");
	fake_end();
}

static void suspended(void)
{
	begin(0);
	ok(stop(), "a rank without a link is stopped, and Slurm suspends the job");
	lease_end_stand(fake_agent, true);
	renew();
	usleep(LEASE_MS * 1000);
	ok(task_is_stopped(task()), "it stays so");
	fake_end();
}

int main(void)
{
	stopped_by_its_end();
	stopped_before();
	suspended();
	return tap_done();
}
