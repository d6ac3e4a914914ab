/* SPDX-License-Identifier: Apache-2.0
 * Files, memory files and sockets of real python3 and perl programs: each program makes its state,
 * is checkpointed, killed and restored twice, each time after a trial, and then finds its state as
 * it left it. What no image holds is refused by `able` and by a checkpoint alike, with the same
 * words. */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define NOBODY 65534

struct program {
	const char *name;
	const char *make;    /* python3: d is a directory for its files */
	const char *check;   /* an exception fails the test */
	const char *between; /* shell, in the directory, while the program is dead; or NULL */
	const char *refused; /* words of the reason that there is no checkpoint; or NULL */
	const char *noted;   /* words of a limit that `able` reports; or NULL */
	const char *perl;    /* interpreter is perl: the whole program; else NULL */
	bool listens;        /* at the abstract name of the directory */
	const char *told;    /* words of what a restart notes for the user; or NULL */
	bool once;           /* only one checkpoint can be taken of the process */
	bool executes;       /* `make` executes another program, which is then the rank */
	const char *unrestored; /* words of the reason that a restart fails; or NULL */
	bool untried;        /* a trial does not see it */
	const char *after;   /* shell, in the directory: fails if it has changed otherwise */
	bool small;          /* needs the file system at SMALL */
	bool often;          /* `able` never refuses it */
};

/* A file system of 1 MiB, which only this process and its children see. */
#define SMALL "/mnt"

/* d/s may be written by others, who have put something else there. v is the user's own. */
#define OPEN_TO_OTHERS \
	"os.umask(0o022); os.mkdir(d + '/s'); os.chmod(d + '/s', 0o777)\n" \
	"os.mkdir(d + '/s/x'); os.mkdir(d + '/v'); open(d + '/v/f', 'w').write('precious')\n"
#define LINKED_DIRECTORY "mv s/x s/y && ln -s ../v s/x"
#define LINKED_FILE "mv s/x/f s/x/g; chmod 777 s/x; ln -s ../../v/f s/x/f"
#define LINK_REFUSED .unrestored = "now has one that another user may have put there"
#define IS_PRECIOUS "test \"$(cat v/f; ls v)\" = preciousf"

#define EACH_FLAG \
	"flags = [os.O_NOFOLLOW, os.O_SYNC, os.O_DSYNC, os.O_NOATIME, os.O_DIRECT,\n" \
	"  os.O_NONBLOCK, os.O_APPEND, os.O_CREAT, os.O_CREAT|os.O_EXCL, os.O_CREAT|os.O_TRUNC,\n" \
	"  os.O_NOCTTY, os.O_CLOEXEC]\n" \
	"kept = os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | os.O_ACCMODE\n" \
	"def told(f): return fcntl.fcntl(f, fcntl.F_GETFL) & kept\n"

/* Each listens, has a connection and another whose client has a name as well, and two that wait. */
#define NAMED_SOCKETS \
	"def client(s, n):\n" \
	"  c = socket.socket(socket.AF_UNIX, s.type)\n" \
	"  if n: c.bind(n)\n" \
	"  c.connect(s.getsockname()); return c\n" \
	"def server(t, n):\n" \
	"  s = socket.socket(socket.AF_UNIX, t); s.bind(n); s.listen(5)\n" \
	"  a = client(s, ''), s.accept()[0]; b = client(s, n + 'b'), s.accept()[0]\n" \
	"  w = [client(s, n) for n in ('', n + 'w')]\n" \
	"  a[0].send(b'to'); a[1].send(b'fro'); b[0].send(b'end')\n" \
	"  b[0].shutdown(socket.SHUT_WR); return s, a, b, w\n" \
	"all = [server(t, n % t) for t in SOCKETS[:2] for n in (d + '/%d', '\\0' + d + '%d')]\n" \
	"os.chmod(d + '/1', 0o640)\n" \
	"def told(): return [(x.getsockname(), x.getpeername()) for s, a, b, w in all\n" \
	"  for x in [*a, *b, *w]]\n" \
	"before = told()"
#define ARE_CONNECTED \
	"assert told() == before, (told(), before)\n" \
	"assert stat.S_IMODE(os.stat(d + '/1').st_mode) == 0o640\n" \
	"for s, a, b, w in all:\n" \
	"  assert a[1].recv(9) == b'to' and a[0].recv(9) == b'fro'\n" \
	"  assert b[1].recv(9) == b'end' and b[1].recv(9) == b''\n" \
	"  for x in w:\n" \
	"    y = s.accept()[0]; x.send(b'x'); assert y.recv(9) == b'x'\n" \
	"    assert y.getpeername() == x.getsockname()\n" \
	"  x = client(s, ''); y = s.accept()[0]; x.send(b'x'); assert y.recv(9) == b'x'"

/* One with both ends, one that was opened to read and write, and one whose name is gone. */
#define NAMED_PIPES \
	"def made(n):\n" \
	"  os.mkfifo(d + n, 0o640); return os.open(d + n, os.O_RDONLY | os.O_NONBLOCK)\n" \
	"r = made('/f'); w = os.open(d + '/f', os.O_WRONLY)\n" \
	"gone = made('/gone'); g = os.open(d + '/gone', os.O_WRONLY); os.unlink(d + '/gone')\n" \
	"os.mkfifo(d + '/rw'); rw = os.open(d + '/rw', os.O_RDWR)\n" \
	"for f in w, g, rw: assert os.write(f, b'state') == 5\n" \
	"all = r, w, gone, g, rw\n" \
	"def flags(f): return fcntl.fcntl(f, fcntl.F_GETFL) & ~0o100000 # O_LARGEFILE\n" \
	"def told(): return [(flags(f), os.fstat(f).st_mode) for f in all]\n" \
	"before = told()"
#define PIPES_WORK \
	"for f in r, gone, rw: assert os.read(f, 9) == b'state'\n" \
	"assert told() == before, (told(), before)\n" \
	"for n, f in ('/f', r), ('/rw', rw):\n" \
	"  x = os.open(d + n, os.O_WRONLY); os.write(x, b'x'); assert os.read(f, 9) == b'x'\n" \
	"  os.close(x)\n" \
	"assert os.write(g, b'x') == 1 and os.read(gone, 9) == b'x'\n" \
	"os.close(w); os.close(g); assert os.read(r, 9) == b'' and os.read(gone, 9) == b''"

/* What a job writes after its checkpoint, and what another node does not have. */
#define MAPPED_SINCE "printf since | dd of=f conv=notrunc status=none; rm -f /dev/shm/${PWD##*/}"

static const struct program programs[] = {
	{.name = "python TemporaryFile",
	 .make = "f = tempfile.TemporaryFile(dir=d); f.write(b'state'); f.flush()\n"
		 "g = tempfile.TemporaryFile(); g.write(b'state'); g.flush()",
	 .check = "for x in f, g: x.write(b'!'); x.seek(0); assert x.read() == b'state!'"},
	{.name = "python SpooledTemporaryFile and NamedTemporaryFile",
	 .make = "f = tempfile.SpooledTemporaryFile(dir=d, max_size=3); f.write(b'state')\n"
		 "g = tempfile.NamedTemporaryFile(dir=d); g.write(b'state'); g.flush()",
	 .check = "for x in f, g: x.write(b'!'); x.seek(0); assert x.read() == b'state!'\n"
		  "assert os.path.exists(g.name)"},
	{.name = "python, listening", .listens = true,
	 .make = "s = socket.socket(socket.AF_UNIX); s.bind('\\0' + d); s.listen()",
	 .check = "c = socket.socket(socket.AF_UNIX); c.connect('\\0' + d)\n"
		  "t = s.accept()[0]; c.send(b'state'); assert t.recv(9) == b'state'"},
	{.name = "mkstemp and unlink",
	 .make = "f, n = tempfile.mkstemp(dir=d); os.unlink(n); os.write(f, b'state')",
	 .check = "os.write(f, b'!'); assert os.pread(f, 9, 0) == b'state!'"},
	{.name = "perl File::Temp",
	 .perl = "use File::Temp; my ($d) = @ARGV; my $f = File::Temp->new(DIR => $d);\n"
		 "my $g = File::Temp::tempfile(DIR => $d); my $h; open($h, '+>', undef);\n"
		 "for ($f, $g, $h) { $_->autoflush(1); print $_ 'state' }\n"
		 "open(my $r, '>', \"$d/ready\"); close $r;\n"
		 "select(undef, undef, undef, 0.005) until -e \"$d/go\";\n"
		 "for ($f, $g, $h) { print $_ '!'; seek($_, 0, 0); <$_> eq 'state!' or die $_ }"},
	{.name = "a file without a name, by each flag of open",
	 .make = EACH_FLAG
		 "def opened(n, x):\n"
		 "  p = d + '/f%d' % n\n"
		 "  if not x & os.O_CREAT: open(p, 'w').close()\n"
		 "  f = os.open(p, os.O_RDWR | x, 0o600); os.unlink(p); return f\n"
		 "files = [opened(n, x) for n, x in enumerate(flags)]\n"
		 "files.append(os.open(d, os.O_TMPFILE | os.O_RDWR, 0o600))\n"
		 "files.append(os.open(d, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600))\n"
		 "page = mmap.mmap(-1, 4096); page[:] = b's' * 4096\n"
		 "for f in files: assert os.write(f, page) == 4096\n"
		 "before = [told(f) for f in files]",
	 .check = "for f, b in zip(files, before):\n"
		  "  assert os.fstat(f).st_size == os.lseek(f, 0, 1) == 4096 and told(f) == b\n"
		  "  assert os.preadv(f, [page], 0) == 4096 and page[:] == b's' * 4096"},
	{.name = "a file with a name, by each flag of open",
	 .make = EACH_FLAG
		 "def opened(n, x): return os.open(d + '/f%d' % n, os.O_RDWR | x, 0o600)\n"
		 "for n, x in enumerate(flags):\n"
		 "  if not x & os.O_CREAT: open(d + '/f%d' % n, 'w').close()\n"
		 "files = [opened(n, x) for n, x in enumerate(flags)]\n"
		 "files.append(os.open(d + '/f0', os.O_PATH | os.O_NOFOLLOW))\n"
		 "files.append(os.open(d, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))\n"
		 "page = mmap.mmap(-1, 4096); page[:] = b's' * 4096\n"
		 "for f in files[:-2]: assert os.write(f, page) == 4096\n"
		 "before = [told(f) for f in files]",
	 .check = "for f, b in zip(files, before): assert told(f) == b, (told(f), b)\n"
		  "for f in files[:-2]: assert os.preadv(f, [page], 0) == 4096\n"
		  "assert os.path.samestat(os.fstat(files[-1]), os.stat(d))\n"
		  "assert os.path.samestat(os.fstat(files[-2]), os.stat(d + '/f0'))"},
	{.name = "a memory file, by each flag of open",
	 .make = EACH_FLAG
		 "m = os.memfd_create('m'); os.write(m, b'state')\n"
		 "def opened(x): return os.open('/proc/self/fd/%d' % m, os.O_RDWR | x)\n"
		 "files = [opened(x) for x in flags if not x & (os.O_NOFOLLOW | os.O_DIRECT |\n"
		 "  os.O_EXCL | os.O_TRUNC)]\n"
		 "before = [told(f) for f in files]",
	 .check = "for f, b in zip(files, before):\n"
		  "  assert told(f) == b and os.pread(f, 9, 0) == b'state'"},
	{.name = "a full file system", .small = true,
	 .make = "f = open('" SMALL "/f', 'w+b'); f.write(b'state' * 100000); f.flush()\n"
		 "log = open('" SMALL "/log', 'a'); log.write('kept'); log.flush()",
	 .between = "cd " SMALL " && rm f && printf more >>log && head -c 900k /dev/zero >taken",
	 .unrestored = "of 500000 that a restart needs",
	 .after = "cd " SMALL " && test \"$(cat log; ls)\" = \"$(printf 'keptmorelog\\ntaken')\""},
	{.name = "a link in the place of the directory of a file",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/f', 'w+'); f.write('state'); f.flush()",
	 .between = LINKED_DIRECTORY, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "a link in the place of a file",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/f', 'w+'); f.write('state'); f.flush()",
	 .between = LINKED_FILE, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "a link in the place of a file that is missing then",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/g', 'w+'); f.write('state'); f.flush()",
	 .between = LINKED_DIRECTORY, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "a link in the place of a log",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/f', 'a'); f.write('pre'); f.flush()",
	 .between = LINKED_FILE, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "a link in the place of a mapped file",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/f', 'w+b'); f.truncate(4096)\n"
		 "m = mmap.mmap(f.fileno(), 4096); m[0] = 1; f.close()",
	 .between = LINKED_DIRECTORY, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "a link in the place of the working directory",
	 .make = OPEN_TO_OTHERS "os.chdir(d + '/s/x')",
	 .between = LINKED_DIRECTORY, LINK_REFUSED, .after = IS_PRECIOUS},
	{.name = "another directory of the user's in the place of a file's",
	 .make = OPEN_TO_OTHERS "f = open(d + '/s/x/f', 'w+'); f.write('state'); f.flush()",
	 .between = "test ! -d v || { mv s/x s/y && mv v s/x; }",
	 .check = "assert open(d + '/s/x/f').read() == 'state'\n"
		  "assert os.listdir(d + '/s/x').sort() == ['f', 'f.gpuckpt-cut-1'].sort()\n"
		  "assert open(d + '/s/x/f.gpuckpt-cut-1').read() == 'precious'"},
	{.name = "a link of the user's own, where nobody else can put one",
	 .make = "os.umask(0o022); os.mkdir(d + '/x'); os.chdir(d + '/x')\n"
		 "f = open(d + '/x/f', 'w+'); f.write('state'); f.flush()",
	 .between = "test -L x || { mv x y && ln -s y x; }",
	 .check = "assert open(d + '/y/f').read() == 'state'\n"
		  "assert os.path.samestat(os.stat('.'), os.stat(d + '/y'))"},
	{.name = "files whose rights were taken away",
	 .make = "ways = [(os.O_RDWR, 0o444), (os.O_WRONLY | os.O_APPEND, 0o444),\n"
		 "  (os.O_RDWR | os.O_APPEND, 0o400), (os.O_RDONLY, 0), (os.O_RDONLY, 0o200)]\n"
		 "def opened(n, flags, mode):\n"
		 "  p = d + '/f%d' % n; open(p, 'w').write('state'); f = os.open(p, flags)\n"
		 "  os.chmod(p, mode); return f\n"
		 "files = [opened(n, *w) for n, w in enumerate(ways)]\n"
		 "def able(n): return os.stat(d + '/f%d' % n).st_mode & 0o777 == ways[n][1]\n"
		 "m = open(d + '/mapped', 'w+b'); m.truncate(4096)\n"
		 "m = mmap.mmap(m.fileno(), 4096)\n"
		 "os.mkdir(d + '/x'); x = os.open(d + '/x', os.O_RDONLY)\n"
		 "os.chmod(d + '/mapped', 0o444); os.chmod(d + '/x', 0)",
	 .check = "assert all(map(able, range(len(ways))))\n"
		  "for f in files[:3]: assert os.fstat(f).st_size == 5 and os.write(f, b'!') == 1\n"
		  "for f in files[3:]: assert os.read(f, 9) == b'state'\n"
		  "m[0] = 1; assert os.stat(d + '/mapped').st_mode & 0o777 == 0o444\n"
		  "os.chmod(d + '/x', 0o700)\n"
		  "assert os.path.samestat(os.stat(d + '/x'), os.fstat(x))"},
	{.name = "a file whose rights were taken away, and that was removed since",
	 .make = "f = os.open(d + '/f', os.O_RDWR | os.O_CREAT, 0o444); os.write(f, b'state')",
	 .between = "rm -f f",
	 .check = "assert os.pread(f, 9, 0) == b'state' and os.write(f, b'!') == 1\n"
		  "assert os.stat(d + '/f').st_mode & 0o777 == 0o444"},
	{.name = "a log in a directory that cannot be written",
	 .make = "os.chdir(d); os.mkdir('x'); f = open('x/log', 'a'); f.write('state'); f.flush()\n"
		 "os.chmod('x', 0o555)",
	 .between = "echo more >>x/log",
	 .told = "/x/log at this restart is in /tmp/",
	 .noted = "cannot be written",
	 .check = "assert open('x/log').read() == 'state' and os.listdir('x') == ['log']\n"
		  "assert open('log.gpuckpt-cut-1').read() == 'more\\n'\n"
		  "assert open('log.gpuckpt-cut-2').read() == 'more\\n'\n"
		  "os.chmod('x', 0o755)"},
	{.name = "a log beside which nothing can be kept, nor elsewhere",
	 .make = "os.mkdir(d + '/x'); os.chdir(d + '/x'); f = open('log', 'a')\n"
		 "os.chmod(d + '/x', 0o555)",
	 .check = "os.chmod(d + '/x', 0o755)",
	 .refused = "what a restart cuts from it cannot be kept"},
	{.name = "a file that cannot be read",
	 .make = "f = os.open(d + '/f', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o200)",
	 .check = "pass",
	 .refused = "cannot be read"},
	{.name = "signals of a file that are for another process than the rank's",
	 .make = "a, b = os.pipe(); fcntl.fcntl(a, fcntl.F_SETOWN, os.getppid())",
	 .check = "pass",
	 .refused = ", which is none of the rank's"},
	{.name = "signals and a lock of files that are under way in a socketpair",
	 .make = "a, b = socket.socketpair(); r, w = os.pipe(); f = open(d + '/f', 'w')\n"
		 "fcntl.fcntl(r, fcntl.F_SETOWN, os.getpid())\n"
		 "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); fcntl.flock(f, fcntl.LOCK_EX)\n"
		 "socket.send_fds(a, [b'x'], [r, f.fileno()]); os.close(r); f.close()",
	 .check = "r, f = socket.recv_fds(b, 1, 9)[1]\n"
		  "assert fcntl.fcntl(r, fcntl.F_GETOWN) == os.getpid()\n"
		  "assert fcntl.fcntl(r, fcntl.F_GETFL) & os.O_ASYNC\n"
		  "try: fcntl.flock(open(d + '/f'), fcntl.LOCK_SH | fcntl.LOCK_NB); assert 0\n"
		  "except BlockingIOError: pass"},
	{.name = "a lease of the task's own output",
	 .make = "fcntl.fcntl(1, fcntl.F_SETLEASE, fcntl.F_WRLCK)",
	 .check = "pass",
	 .refused = "a lease is held on /"},
	{.name = "a lock of the process on the task's own output",
	 .make = "fcntl.lockf(1, fcntl.LOCK_EX)",
	 .check = "pass",
	 .refused = "it is the task's own standard input or output"},
	{.name = "signals of a file that are for nobody",
	 .make = "a, b = os.pipe(); p = os.fork() or os._exit(0)\n"
		 "fcntl.fcntl(a, fcntl.F_SETOWN, p); os.waitpid(p, 0)\n"
		 "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC)\n"
		 "ASYNC = os.O_ASYNC | os.O_NONBLOCK\n"
		 "c, d2 = socket.socketpair(); fcntl.fcntl(c, fcntl.F_SETFL, ASYNC)\n"
		 "def told(f): return fcntl.fcntl(f, fcntl.F_GETFL) & ASYNC",
	 .check = "assert fcntl.fcntl(a, fcntl.F_GETOWN) == 0 and told(a) == os.O_ASYNC\n"
		  "assert fcntl.fcntl(c, fcntl.F_GETOWN) == 0 and told(c) == ASYNC\n"
		  "assert os.write(b, b'x') == 1 and d2.send(b'x') == 1"},
	{.name = "a descriptor under way in a socket that is not connected",
	 .make = "a, b = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for x in range(2)]\n"
		 "b.bind('\\0' + d + 'b'); a.connect('\\0' + d + 'b')\n"
		 "socket.send_fds(a, [b'x'], [0])",
	 .check = "pass",
	 .refused = "a descriptor is under way"},
	{.name = "a working directory that cannot be entered",
	 .make = "os.mkdir(d + '/x'); os.chdir(d + '/x'); os.chmod(d + '/x', 0)",
	 .check = "os.chmod(d + '/x', 0o755)",
	 .refused = "cannot be entered"},
	{.name = "a long mapped file whose rights were taken away",
	 .make = "f = open(d + '/f', 'w+b'); f.truncate(70 << 20); f.write(b'state'); f.close()\n"
		 "f = open(d + '/f', 'rb'); m = mmap.mmap(f.fileno(), 70 << 20, mmap.MAP_PRIVATE)\n"
		 "os.chmod(d + '/f', 0)",
	 .check = "assert m[:6] == b'state\\0' and m[-1] == 0"},
	{.name = "files that others write, mapped to be read", .between = MAPPED_SINCE,
	 .make = "def mapped(w):\n"
		 "  os.pwrite(w, b'state' * 2000, 0)\n"
		 "  r = os.open('/proc/self/fd/%d' % w, os.O_RDONLY)\n"
		 "  m = mmap.mmap(r, 10000, mmap.MAP_SHARED, mmap.PROT_READ); os.close(r)\n"
		 "  return m\n"
		 "def opened(n): return os.open(n, os.O_RDWR | os.O_CREAT, 0o600)\n"
		 "shm = '/dev/shm/' + os.path.basename(d)\n"
		 "plain, gone, memory, shared = opened(d + '/f'), opened(d + '/g'), \\\n"
		 "  os.memfd_create('m'), opened(shm)\n"
		 "all = [(w, mapped(w)) for w in (plain, gone, memory, shared)]\n"
		 "os.unlink(d + '/g')",
	 .check = "for n, (w, m) in enumerate(all):\n"
		  "  assert m[:5] == m[8195:8200] == b'state', n\n"
		  "  for at in 0, 8192: os.pwrite(w, b'other', at)\n"
		  "  assert m[:5] == m[8192:8197] == b'other', n\n"
		  "os.unlink(shm)"},
	{.name = "a process that may only read what another one writes",
	 .make = "a, b = socket.socketpair()\n"
		 "def mapped(n):\n"
		 "  f = os.open(n, os.O_RDONLY)\n"
		 "  return mmap.mmap(f, 4096, mmap.MAP_SHARED, mmap.PROT_READ), os.close(f)\n"
		 "if not os.fork():\n"
		 "  a.close(); all = [mapped(n) for n in b.recv(999).split()]\n"
		 "  while b.send(b''.join(m[:5] for m, _ in all)): b.recv(1)\n"
		 "def made(m): os.ftruncate(m, 4096); return mmap.mmap(m, 4096), m\n"
		 "all = [made(m) for m in (os.memfd_create('m', os.MFD_ALLOW_SEALING),\n"
		 "  os.memfd_create('n'), os.open(d + '/f', os.O_RDWR | os.O_CREAT))]\n"
		 "fcntl.fcntl(all[0][1], fcntl.F_ADD_SEALS, 0x10) # F_SEAL_FUTURE_WRITE\n"
		 "a.send(b' '.join(b'/proc/%d/fd/%d' % (os.getpid(), f) for m, f in all))\n"
		 "assert a.recv(99) == b'\\0' * 15; b.close(); os.close(all[1][1])",
	 .between = "printf since | dd of=f conv=notrunc status=none",
	 .check = "for m, f in all: m[:5] = b'state'\n"
		  "a.send(b'x'); x = a.recv(99); assert x == b'state' * 3, x"},
	{.name = "a file that one process writes and others read, which is missing then",
	 .make = "a, b = socket.socketpair(); f = os.open(d + '/f', os.O_RDWR | os.O_CREAT)\n"
		 "os.write(f, b'state')\n"
		 "if not os.fork():\n"
		 "  a.close(); os.close(f); r = os.open(d + '/f', os.O_RDONLY)\n"
		 "  os.read(r, 2); b.send(b'x')\n"
		 "  while b.recv(9): b.send(os.read(r, 99))\n"
		 "assert a.recv(9) == b'x'; b.close()",
	 .between = "rm -f f",
	 .check = "os.write(f, b'more'); a.send(b'x'); x = a.recv(99); assert x == b'atemore', x"},
	{.name = "processes that end with their parent",
	 .make = "r, w = os.pipe(); p = os.fork(); libc = ctypes.CDLL(None)\n"
		 "if not p and not os.fork():\n"
		 "  libc.syscall(157, 1, 9); os.write(w, b'x') # SYS_prctl\n"
		 "  while True: time.sleep(100)\n"
		 "if not p and not os.fork():\n"
		 "  libc.prctl(1, 9); os.dup2(w, 1) # PR_SET_PDEATHSIG\n"
		 "  os.execl('/bin/sh', 'sh', '-c', 'echo; exec sleep infinity')\n"
		 "while not p: time.sleep(100)\n"
		 "assert os.read(r, 1) and os.read(r, 1); os.close(w)",
	 .check = "os.kill(p, 9); os.waitpid(p, 0)\n"
		  "assert select.select([r], [], [], 9)[0] and os.read(r, 1) == b''"},
	{.name = "files mapped to be read, of which one has changed and one is another then",
	 .make = "def mapped(n):\n"
		 "  open(n, 'w').write('state'); f = os.open(n, os.O_RDONLY)\n"
		 "  return mmap.mmap(f, 5, mmap.MAP_SHARED, mmap.PROT_READ)\n"
		 "changed, other = mapped(d + '/f'), mapped(d + '/g')",
	 .between = "printf since | dd of=f conv=notrunc status=none; cp f h; mv h g",
	 .check = "assert changed[:] == b'since' and other[:] == b'state'"},
	{.name = "files that are mapped to be read meanwhile",
	 .make = "done = False; f = os.open(sys.executable, os.O_RDONLY); all = []\n"
		 "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n"
		 "def work():\n"
		 "  while not done and len(all) < 9999:\n"
		 "    all.append(libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))\n"
		 "    time.sleep(.0005)\n"
		 "t = threading.Thread(target=work); t.start()",
	 .check = "done = True; t.join()\n"
		  "for a in all: assert ctypes.string_at(a, 4)[1:] == b'ELF'",
	 .often = true},
	{.name = "a private mapping of a file without a name",
	 .make = "def mapped(size, length, close):\n"
		 "  f, n = tempfile.mkstemp(dir=d); os.ftruncate(f, size)\n"
		 "  os.pwrite(f, b'state', 0)\n"
		 "  m = mmap.mmap(f, length, mmap.MAP_PRIVATE); os.unlink(n)\n"
		 "  if length > 4096: m[4096:4101] = b'other'\n"
		 "  return os.close(f) if close else f, m\n"
		 "all = [mapped(*x) for x in ((4096, 4096, True), (8192, 8192, True),\n"
		 "  (4096, 4096, False), (10000, 10000, False), (300000, 270000, False))]\n"
		 "page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
	 .check = "for f, m in all:\n"
		  "  assert m[:5] == b'state' and (len(m) == 4096 or m[4096:4101] == b'other')\n"
		  "  assert f is None or os.pread(f, 5, 0) == b'state'"},
	{.name = "a program that was executed in memory", .executes = true,
	 .make = "if sys.argv[-1] != 'again':\n"
		 "  m = os.memfd_create('program', 0); c = open(sys.executable, 'rb').read()\n"
		 "  assert os.write(m, c) == len(c)\n"
		 "  os.execv('/proc/self/fd/%d' % m, sys.orig_argv + ['again'])\n"
		 "exe = os.readlink('/proc/self/exe')\n"
		 "assert 'memfd:program' in exe\n"
		 "m = [f for f in range(3, 9) if os.path.exists('/proc/self/fd/%d' % f) and\n"
		 "  'memfd' in os.readlink('/proc/self/fd/%d' % f)][0]",
	 .check = "assert os.pread(m, 4, 0) == b'\\x7fELF'"},
	{.name = "a program that another one executed", .executes = true,
	 .make = "prog = d + '/prog'\n"
		 "if sys.argv[-1] != 'again':\n"
		 "  shutil.copy(sys.executable, prog); os.execv(prog, sys.orig_argv + ['again'])\n",
	 .check = "assert os.readlink('/proc/self/exe') == prog\n"
		  "again = 'import os; print(os.readlink(\"/proc/self/exe\"))'\n"
		  "again = subprocess.check_output(['/proc/self/exe', '-c', again], env={})\n"
		  "assert again.decode().strip() == prog"},
	{.name = "a program that another one executed, and that is gone", .executes = true,
	 .make = "prog = d + '/prog'\n"
		 "if sys.argv[-1] != 'again':\n"
		 "  shutil.copy(sys.executable, prog); os.execv(prog, sys.orig_argv + ['again'])\n",
	 .between = "rm -f prog",
	 .check = "pass",
	 .told = "/prog: it is not there with the same content"},
	{.name = "modes, times and seals of memory files",
	 .make = "def made(mode, seals):\n"
		 "  m = os.memfd_create('m', os.MFD_ALLOW_SEALING); os.write(m, b'state')\n"
		 "  os.fchmod(m, mode); os.utime(m, ns=(10**18, 10**18 + 7))\n"
		 "  if seals: fcntl.fcntl(m, fcntl.F_ADD_SEALS, seals)\n"
		 "  return m\n"
		 "exec_seal = 0x20\n"
		 "all = [made(*x) for x in ((0o777, 0), (0o640, 0), (0o400, 1), (0o600, 15),\n"
		 "  (0o600, 2 | 4), (0o600, 0x10), (0o600, exec_seal), (0o600, 8))]\n"
		 "all.append(os.memfd_create('plain'))\n"
		 "os.ftruncate(all[0], 8192); os.utime(all[0], ns=(10**18, 10**18 + 7))\n"
		 "shared = mmap.mmap(all[0], 8192)\n"
		 "def told(m):\n"
		 "  s = os.fstat(m)\n"
		 "  return s.st_mode, s.st_size, s.st_mtime_ns, fcntl.fcntl(m, fcntl.F_GET_SEALS)\n"
		 "before = [told(m) for m in all]",
	 .check = "for m, b in zip(all, before): assert told(m) == b, (told(m), b)"},
	{.name = "an empty packet that a checkpoint has seen",
	 .make = "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
		 "for x in b'one', b'', b'two': a.send(x)",
	 .check = "for x in b'one', b'', b'two': assert b.recv(99) == x",
	 .once = true},
	{.name = "packets whose sender is closed, more than a buffer usually takes, and options",
	 .make = "t = socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_STREAM\n"
		 "closed = [socket.socketpair(socket.AF_UNIX, x) for x in t]\n"
		 "for a, b in closed: a.send(b'one'); a.send(b'two'); a.close()\n"
		 "large = [socket.socketpair(socket.AF_UNIX, x) for x in t]\n"
		 "for a, b in large:\n"
		 "  a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10**9)\n"
		 "  for i in range(6): a.send(b'x' * 50000)\n"
		 "def told(s): return [s.getsockopt(socket.SOL_SOCKET, x, 16) for x in\n"
		 "  (socket.SO_SNDBUF, socket.SO_RCVBUF, socket.SO_RCVTIMEO, socket.SO_RCVLOWAT,\n"
		 "  socket.SO_PASSCRED, 29, 35, 42)]\n"
		 "s = large[2][1]; s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)\n"
		 "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (7).to_bytes(16, 'little'))\n"
		 "for x in socket.SO_RCVLOWAT, socket.SO_PASSCRED, 29, 42:\n"
		 "  s.setsockopt(socket.SOL_SOCKET, x, 3 if x == 42 else 1)\n"
		 "before = [told(s) for pair in large for s in pair]",
	 .check = "for a, b in closed[:2]:\n"
		  "  assert b.recv(99) == b'one' and b.recv(99) == b'two'\n"
		  "assert closed[0][1].recv(99) == b'' and closed[2][1].recv(99) == b'onetwo'\n"
		  "assert before == [told(s) for pair in large for s in pair]\n"
		  "for a, b in large:\n"
		  "  for i in range(6): assert b.recv(50000, socket.MSG_WAITALL) == b'x' * 50000"},
	{.name = "unix sockets with names",
	 .make = NAMED_SOCKETS, .check = ARE_CONNECTED},
	{.name = "unix sockets with names that were removed since", .between = "rm -f [0-9]*",
	 .make = NAMED_SOCKETS, .check = ARE_CONNECTED},
	{.name = "names of a unix socket and of a FIFO in directories that are missing then",
	 .make = "for x in '/v', '/v/s', '/f': os.mkdir(d + x)\n"
		 "s = socket.socket(socket.AF_UNIX); s.bind(d + '/v/s/name'); s.listen()\n"
		 "os.mkfifo(d + '/f/fifo'); f = os.open(d + '/f/fifo', os.O_RDWR)",
	 .between = "rm -r v f",
	 .check = "c = socket.socket(socket.AF_UNIX); c.connect(d + '/v/s/name')\n"
		  "c.send(b'x'); assert s.accept()[0].recv(9) == b'x'\n"
		  "assert os.stat(d + '/f/fifo').st_ino == os.fstat(f).st_ino\n"
		  "for x in '/v', '/v/s', '/f': assert os.stat(d + x).st_mode & 0o777 == 0o700"},
	{.name = "a file in the place of a unix socket's directory, and one that is missing",
	 .make = "for x in '/w', '/v': os.mkdir(d + x)\n"
		 "s = [socket.socket(socket.AF_UNIX) for x in range(2)]\n"
		 "s[0].bind(d + '/w/name'); s[1].bind(d + '/v/name')",
	 .between = "rm -r w v && printf precious >v",
	 .unrestored = "cannot be made on this node",
	 .after = "test $(cat v) = precious && test ! -e w"},
	{.name = "a unix socket whose name belongs to another file then",
	 .make = "s = socket.socket(socket.AF_UNIX); s.bind(d + '/v'); s.listen()",
	 .between = "rm v && printf precious >v", .untried = true,
	 .unrestored = "giving a unix socket its name", .after = "test $(cat v) = precious"},
	{.name = "a unix socket whose name is gone",
	 .make = "s = socket.socket(socket.AF_UNIX); s.bind(d + '/s'); s.listen()\n"
		 "os.unlink(d + '/s')",
	 .check = "pass", .refused = "whose name is gone"},
	{.name = "a unix socket with a relative name",
	 .make = "os.chdir(d); s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen()",
	 .check = "pass", .refused = "with a relative name"},
	{.name = "connections that wait with bytes, or whose client is gone",
	 .make = "s = socket.socket(socket.AF_UNIX); s.bind(d + '/s'); s.listen()\n"
		 "c = socket.socket(socket.AF_UNIX); c.connect(d + '/s'); c.close()",
	 .check = "pass", .refused = "waits to be accepted"},
	{.name = "a unix socket that an outside process has not accepted",
	 .make = "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + d + 'stream')",
	 .check = "pass", .refused = "another process has not accepted"},
	{.name = "a unix socket for datagrams to an outside process",
	 .make = "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
		 "s.connect('\\0' + d + 'packets')",
	 .check = "pass", .refused = "the other end of a unix socket is in another process"},
	{.name = "unix sockets without a connection, and for datagrams",
	 .make = "new = [socket.socket(socket.AF_UNIX, t) for t in SOCKETS]\n"
		 "for n, s in enumerate(new): s.bind(d + '/new%d' % n)\n"
		 "def bound(n):\n"
		 "  s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
		 "  if n: s.bind(n)\n"
		 "  return s\n"
		 "to, own, gone = d + '/to', '\\0' + d + 'own', d + '/gone'\n"
		 "senders = [bound(n) for n in (None, own, gone)]; s = bound(to)\n"
		 "sent = [(b'one', None), (b'two', own), (b'three', gone), (b'four', own)]\n"
		 "for x, n in sent: senders[[None, own, gone].index(n)].sendto(x, to)\n"
		 "senders[2].close(); os.unlink(gone); senders[1].connect(to)\n"
		 "pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
		 "pair[0].bind(d + '/pair'); pair[0].send(b'packet')",
	 .check = "for x in sent: assert s.recvfrom(99) == (x[0], x[1] and (\n"
		  "  x[1].encode() if x[1] == own else x[1])), x\n"
		  "assert senders[1].getpeername() == to and senders[1].send(b'new') == 3\n"
		  "assert s.recvfrom(9) == (b'new', own.encode()) and not os.path.exists(gone)\n"
		  "assert pair[1].recvfrom(9) == (b'packet', d + '/pair')\n"
		  "assert pair[1].getpeername() == d + '/pair'\n"
		  "for s in new[:2]:\n"
		  "  s.listen(); c = socket.socket(socket.AF_UNIX, s.type)\n"
		  "  c.connect(s.getsockname()); c.send(b'x')\n"
		  "  assert s.accept()[0].recv(9) == b'x'"},
	{.name = "named pipes",
	 .make = NAMED_PIPES, .check = PIPES_WORK},
	{.name = "named pipes that were removed since", .between = "rm -f f rw",
	 .make = NAMED_PIPES, .check = PIPES_WORK},
	{.name = "a named pipe whose name is another file's then",
	 .make = "os.mkfifo(d + '/v'); f = os.open(d + '/v', os.O_RDWR)",
	 .between = "rm v && printf precious >v",
	 .unrestored = "is another kind of file", .after = "test $(cat v) = precious"},
	{.name = "a named pipe with bytes and no reader",
	 .make = "os.mkfifo(d + '/f'); r = os.open(d + '/f', os.O_RDONLY | os.O_NONBLOCK)\n"
		 "w = os.open(d + '/f', os.O_WRONLY); os.write(w, b'state'); os.close(r)",
	 .check = "pass", .refused = "has no reader"},
	{.name = "a descriptor under way of a file that is missing then", .between = "rm f",
	 .make = "f = os.open(d + '/f', os.O_RDWR | os.O_CREAT); os.write(f, b'state')\n"
		 "fcntl.lockf(f, fcntl.LOCK_EX, 1); g = os.open(d + '/f', os.O_RDWR)\n"
		 "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [g]); os.close(f)\n"
		 "f = os.open(d + '/f', os.O_RDWR); fcntl.lockf(f, fcntl.LOCK_EX, 1)",
	 .check = "x, (g2,) = socket.recv_fds(b, 1, 9)[:2]; assert os.pread(g2, 9, 0) == b'state'\n"
		  "c = 'import sys, fcntl, os; f = os.open(sys.argv[1], os.O_RDWR)\\n'\n"
		  "c += 'fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)'\n"
		  "l = [sys.executable, '-c', c, d + '/f']\n"
		  "assert subprocess.run(l, stderr=subprocess.DEVNULL).returncode"},
	{.name = "descriptors under way in socketpairs",
	 .make = "pairs = [socket.socketpair(socket.AF_UNIX, t) for t in SOCKETS]\n"
		 "f = os.open(d + '/f', os.O_RDWR | os.O_CREAT); os.write(f, b'state')\n"
		 "r, w = os.pipe(); far, gone = socket.socketpair(); gone.send(b'back')\n"
		 "far.send(b'in it'); g = os.memfd_create('g'); os.write(g, b'memory')\n"
		 "for a, b in pairs:\n"
		 "  a.send(b'plain'); socket.send_fds(a, [b'one'], [f, r, r]); a.send(b'm')\n"
		 "  socket.send_fds(a, [b'two'], [g]); socket.send_fds(a, [b'all'], [b.fileno()])\n"
		 "  a.send(b'end')\n"
		 "socket.send_fds(pairs[0][1], [b'it'], [gone.fileno()])\n"
		 "gone.close(); os.close(g); os.close(r); pairs[1][0].shutdown(socket.SHUT_WR)",
	 .check = "def got(s, n): return socket.recv_fds(s, n, 9)[:2]\n"
		  "for a, b in pairs:\n"
		  "  assert got(b, 5) == (b'plain', [])\n"
		  "  x, (f2, r2, r3) = got(b, 3); assert x == b'one'\n"
		  "  os.lseek(f, 2, 0)\n"
		  "  assert os.lseek(f2, 0, 1) == 2 and os.read(f2, 9) == b'ate'\n"
		  "  os.write(w, b'x'); assert os.read(r2, 9) == b'x' and os.fstat(r3)\n"
		  "  assert got(b, 1) == (b'm', [])\n"
		  "  x, (g2,) = got(b, 3); assert x == b'two' and os.pread(g2, 9, 0) == b'memory'\n"
		  "  x, (b2,) = got(b, 3); assert x == b'all'\n"
		  "  assert os.read(b2, 3) == b'end'\n"
		  "x, (far2,) = got(pairs[0][0], 9); far2 = socket.socket(fileno=far2)\n"
		  "assert x == b'it' and far.recv(9) == b'back' and far2.recv(9) == b'in it'\n"
		  "assert pairs[1][1].recv(9) == b''"},
	{.name = "packets that wait in socketpairs",
	 .make = "pairs = [socket.socketpair(socket.AF_UNIX, t) for t in\n"
		 "  (socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_STREAM)]\n"
		 "sent = [b'one', b'', b'three' * 9000, b'x'] + [b'%d' % i for i in range(4)]\n"
		 "all = b''.join(sent)\n"
		 "for a, b in pairs:\n"
		 "  for x in sent: a.send(x)\n"
		 "  b.send(b'back')\n"
		 "r, w = os.pipe2(os.O_DIRECT)\n"
		 "for x in b'one', b'three' * 100, b'x': os.write(w, x)",
	 .check = "for a, b in pairs:\n"
		  "  if a.type == socket.SOCK_STREAM:\n"
		  "    assert b.recv(len(all), socket.MSG_WAITALL) == all\n"
		  "  else:\n"
		  "    for x in sent: assert b.recv(99999) == x\n"
		  "  assert a.recv(99) == b'back'\n"
		  "for x in b'one', b'three' * 100, b'x': assert os.read(r, 4096) == x"},
};

static char directory[] = "/tmp/gpuckpt-files-XXXXXX";

static int shell(const char *command)
{
	char text[4000];

	snprintf(text, sizeof text, "cd %s && %s", directory, command);
	return system(text);
}

static bool small; /* there is a file system at SMALL */

static void create(const char *name)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	f = fopen(path, "we");
	if (f)
		fclose(f);
}

static bool wait_ready(void)
{
	char path[300];

	snprintf(path, sizeof path, "%s/ready", directory);
	for (int i = 0; i < WAIT_MS / 5; i++, pause_ms(5))
		if (!access(path, F_OK))
			return true;
	return false;
}

static void write_script(const struct program *p, char text[8000])
{
	snprintf(text, 8000,
		 "import os, sys, time, tempfile, shutil, subprocess, fcntl, mmap, socket, stat\n"
		 "import ctypes, select, threading\n"
		 "SOCKETS = socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM\n"
		 "d = sys.argv[1]\n%s\n"
		 "open(d + '/ready', 'w').close()\n"
		 "while not os.path.exists(d + '/go'): time.sleep(0.005)\n%s\n",
		 p->make, p->check ? p->check : "");
}

/* Whether `able` finds these words: in a refusal, or in a limit. */
static bool is_found(struct lineage *l, const char *words, bool refuse)
{
	struct gck_error err = {0};
	struct gck_options o;
	json_t *items, *item;
	bool found = false;
	size_t i;

	gck_options_init(&o);
	items = gck_process_able(l->pid, &l->hello, &o, &err);
	json_array_foreach(items, i, item)
		found |= json_is_true(json_object_get(item, "refuse")) == refuse &&
			 strstr(json_string_value(json_object_get(item, "reason")), words);
	json_decref(items);
	return found;
}

static bool is_told(struct lineage *l, const char *words, bool refuse)
{
	return ok(is_found(l, words, refuse), "`able` %s: %s", refuse ? "refuses" : "reports",
		  words);
}

static void is_never_refused(struct lineage *l)
{
	bool refused = false;

	for (int i = 0; i < 20 && !refused; i++)
		refused = is_found(l, "", true);
	ok(!refused, "`able` never refuses it");
}

/* The refusal of `able` or of a checkpoint. */
static bool is_refused(struct lineage *l, const char *words)
{
	struct gck_error err = {0};
	struct gck_options o;
	struct gck_capture *c;
	bool found = is_told(l, words, true);

	gck_options_init(&o);
	c = gck_capture_open(l->pid, l->link, &l->hello, &o, &err);
	ok(!c && strstr(err.text, words), "so does a checkpoint: %s", err.text);
	gck_capture_close(c);
	return found;
}

/* A socket of this process under an abstract name, which begins with the directory's. */
static int open_outside(int type, const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s%s", directory, name);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
		printf("# %s: %s\n", a.sun_path + 1, strerror(errno));
	return fd;
}

/* While another process has the name of its socket, if it listens. */
static int try_beside(struct lineage *l, const struct program *p)
{
	int other = p->listens ? open_outside(SOCK_STREAM, "") : -1, failed;

	failed = lineage_try(l, l->seq);
	if (other >= 0)
		close(other);
	return failed;
}

static bool live_through(struct lineage *l, const struct program *p)
{
	for (int i = 0; i < 2; i++) {
		if (lineage_checkpoint(l))
			return false;
		lineage_kill(l);
		if ((p->between && shell(p->between)) || try_beside(l, p) ||
		    lineage_restore(l, l->seq))
			return false;
	}
	return true;
}

/* What the first checkpoint saw is hidden from the second. */
static bool is_seen_once(struct lineage *l, const struct program *p)
{
	bool good = ok(!lineage_checkpoint(l), "%s: a checkpoint", p->name) &&
		    ok(lineage_checkpoint_once(l), "%s: another one is refused", p->name);

	lineage_kill(l);
	return good && ok(!lineage_restore(l, l->seq), "%s: restored", p->name);
}

static bool fails_so(struct lineage *l, const struct program *p, bool failed, const char *what)
{
	return ok(failed && strstr(l->failure, p->unrestored), "%s: %s fails: %s", p->name, what,
		  l->failure);
}

/* A trial says so before a restart does. */
static void is_unrestored(struct lineage *l, const struct program *p)
{
	bool good = ok(!lineage_checkpoint(l), "%s: a checkpoint", p->name);

	lineage_kill(l);
	if (!good || shell(p->between))
		return;
	if (!p->untried)
		fails_so(l, p, lineage_try(l, l->seq), "a trial");
	lineage_kill(l);
	fails_so(l, p, lineage_restore(l, l->seq), "a restart");
	lineage_kill(l);
	ok(!shell(p->after), "%s: nothing else has changed", p->name);
}

static bool start(struct lineage *l, const struct program *p)
{
	int link;

	if (lineage_start(l))
		return false;
	if (p->executes) {
		link = agent_admit(&l->agent, &l->hello);
		close(l->link);
		l->link = link;
	}
	return l->link >= 0 && wait_ready();
}

static void test_program(const struct program *p)
{
	static char script[8000];
	char python[] = "/usr/bin/python3", perl[] = "/usr/bin/perl", option[] = "-c";
	char *argv[] = {p->perl ? perl : python, option, script, directory, NULL};
	struct lineage l;
	bool good;

	if (p->perl)
		option[1] = 'e', snprintf(script, sizeof script, "%s", p->perl);
	else
		write_script(p, script);
	if (p->small && !small) {
		skip(p->name, "only root can make a file system");
		return;
	}
	if (access(argv[0], X_OK)) {
		skip(p->name, "its interpreter is not installed");
		return;
	}
	if (shell("rm -rf ./* && umask 022") || lineage_begin(&l, "/tmp", argv))
		return;
	good = ok(start(&l, p), "%s: started", p->name);
	if (good && p->noted)
		is_told(&l, p->noted, false);
	if (good && p->often)
		is_never_refused(&l);
	if (p->unrestored) {
		if (good)
			is_unrestored(&l, p);
		lineage_end(&l);
		return;
	}
	if (p->refused)
		good = good && is_refused(&l, p->refused);
	else if (p->once)
		good = good && is_seen_once(&l, p);
	else
		good = good && ok(live_through(&l, p), "%s: restored twice", p->name);
	create("go");
	ok(good && lineage_wait(&l) == 0, "%s: it finds its state", p->name);
	if (p->told)
		ok(strstr(l.note, p->told) != NULL, "%s: the user is told: %s", p->name, l.note);
	lineage_end(&l);
}

/* Root may open any file: a rank is an ordinary user's. Such a process is not dumpable, and cannot
 * open its own /proc files. */
static bool be_user(void)
{
	return geteuid() || (!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
			     !setresuid(NOBODY, NOBODY, NOBODY) && !prctl(PR_SET_DUMPABLE, 1));
}

static bool make_small(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", SMALL, "tmpfs", 0, "size=1m,mode=0777");
}

int main(int argc, char **argv)
{
	setenv("HOME", "/nonexistent", 1);
	small = make_small();
	if (!be_user() || !mkdtemp(directory) || chmod(directory, 0755))
		return 1;
	if (listen(open_outside(SOCK_STREAM, "stream"), 9) ||
	    open_outside(SOCK_DGRAM, "packets") < 0)
		return 1;
	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
		if (argc < 2 || strstr(programs[i].name, argv[1]))
			test_program(&programs[i]);
	if (chdir("/") || shell("rm -rf \"$PWD\""))
		return 1;
	return tap_done();
}
