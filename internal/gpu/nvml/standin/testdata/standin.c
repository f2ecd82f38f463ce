/*
 * A stand-in for libnvidia-ml.so.1 over one file of text, the state of a machine with
 * NVIDIA GPUs. It lies beside the library, with ".state" behind its name, or where a link
 * of that name leads; what it has in it is told in standin.go. Whoever reads it or writes
 * it holds the lock of the file beside it with ".lock" behind the name, and replaces it as
 * a whole, so that one who is killed leaves the old one or the new one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
	SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9, LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23, VERSION_MISMATCH = 25, UNKNOWN = 999
};

#define GPUS 32
#define MOST 512
#define NONE 0xFFFFFFFFu

static struct gpu {
	char address[32], uuid[64], node[200], name[96];
	unsigned device, subsystem, minor, memory, mig, kept, current, pending, virtualization, epoch, busy, lost;
	int resetless;
} gpus[GPUS];
static struct profile {
	unsigned gpu, index, id, slices, memory, max, size, places, starts[16];
	char name[48];
} profiles[MOST];
static struct gi { unsigned gpu, id, profile, start, busy; } gis[MOST]; /* profile is an index into profiles */
static struct ci { unsigned gpu, gi, id, slices, start; } cis[MOST];
static struct process { unsigned gpu, pid, gi, ci, graphics; unsigned long long memory; } processes[MOST];
static struct knob { char name[48], value[400]; } knobs[64];
static unsigned gpu_count, profile_count, gi_count, ci_count, process_count, knob_count;
static unsigned epoch, loaded, privileged, held, started; /* started: the module's epoch at nvmlInit */
static unsigned ready; /* calls of nvmlInit without one of nvmlShutdown */
static char driver[64], version[64];

static char path[PATH_MAX];
static int lock_fd = -1;

static void find_state(void)
{
	Dl_info self;
	char file[PATH_MAX - 16], beside[PATH_MAX];
	if (path[0] || !dladdr((void *)find_state, &self))
		return;
	/* It may be loaded by its descriptor. */
	ssize_t len = readlink(self.dli_fname, file, sizeof file - 1);
	file[len > 0 ? len : 0] = 0;
	snprintf(beside, sizeof beside, "%s.state", len > 0 ? file : self.dli_fname);
	if (!realpath(beside, path))
		snprintf(path, sizeof path, "%s", beside);
}

static const char *knob(const char *name)
{
	for (unsigned i = 0; i < knob_count; i++)
		if (!strcmp(knobs[i].name, name))
			return knobs[i].value;
	return 0;
}

static void read_gpu(const char *line)
{
	struct gpu *g = &gpus[gpu_count];
	if (gpu_count < GPUS &&
	    sscanf(line, "gpu %31s %x %x %u %63s %u %u %u %u %u %d %u %u %u %u %199s %95[^\n]", g->address, &g->device, &g->subsystem, &g->minor, g->uuid,
		   &g->memory, &g->mig, &g->kept, &g->current, &g->pending, &g->resetless, &g->virtualization, &g->epoch, &g->busy, &g->lost, g->node,
		   g->name) == 17)
		gpu_count++;
}

static void read_profile(const char *line)
{
	struct profile *p = &profiles[profile_count];
	char starts[128];
	if (profile_count == MOST || sscanf(line, "profile %u %u %u %u %u %u %u %127s %47s", &p->gpu, &p->index, &p->id, &p->slices, &p->memory, &p->max, &p->size,
					    starts, p->name) != 9)
		return;
	p->places = 0;
	for (char *s = strtok(starts, ","); s && p->places < 16; s = strtok(0, ","))
		p->starts[p->places++] = strtoul(s, 0, 10);
	profile_count++;
}

static void read_line(const char *line)
{
	struct gi *g = &gis[gi_count];
	struct ci *c = &cis[ci_count];
	struct process *p = &processes[process_count];
	struct knob *k = &knobs[knob_count];
	read_gpu(line);
	read_profile(line);
	if (gi_count < MOST && sscanf(line, "gi %u %u %u %u %u", &g->gpu, &g->id, &g->profile, &g->start, &g->busy) == 5)
		gi_count++;
	if (ci_count < MOST && sscanf(line, "ci %u %u %u %u %u", &c->gpu, &c->gi, &c->id, &c->slices, &c->start) == 5)
		ci_count++;
	if (process_count < MOST &&
	    sscanf(line, "process %u %u %llu %u %u %u", &p->gpu, &p->pid, &p->memory, &p->gi, &p->ci, &p->graphics) == 6)
		process_count++;
	k->value[0] = 0;
	if (knob_count < 64 && sscanf(line, "knob %47s %399[^\n]", k->name, k->value) >= 1)
		knob_count++;
	sscanf(line, "epoch %u", &epoch);
	sscanf(line, "loaded %u", &loaded);
	sscanf(line, "privileged %u", &privileged);
	sscanf(line, "held %u", &held);
	sscanf(line, "driver %63s", driver);
	sscanf(line, "nvml %63s", version);
}

/* seen is the file as it was last read or written, kept open so that no other has its number. */
static int seen_fd = -1;
static struct stat seen;

static void see(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (seen_fd >= 0)
		close(seen_fd);
	seen_fd = fd;
	if (fd < 0 || fstat(fd, &seen) < 0)
		memset(&seen, 0, sizeof seen);
}

static int changed(void)
{
	struct stat now;
	return seen_fd < 0 || stat(path, &now) < 0 || now.st_dev != seen.st_dev || now.st_ino != seen.st_ino || now.st_size != seen.st_size ||
	       now.st_mtim.tv_sec != seen.st_mtim.tv_sec || now.st_mtim.tv_nsec != seen.st_mtim.tv_nsec;
}

static void read_state(void)
{
	char line[1024];
	see();
	FILE *f = fopen(path, "re");
	gpu_count = profile_count = gi_count = ci_count = process_count = knob_count = loaded = held = 0;
	while (f && fgets(line, sizeof line, f))
		read_line(line);
	if (f)
		fclose(f);
}

static void print_state(FILE *f)
{
	fprintf(f, "driver %s\nnvml %s\nepoch %u\nloaded %u\nprivileged %u\nheld %u\n", driver, version, epoch, loaded, privileged, held);
	for (struct gpu *g = gpus; g < gpus + gpu_count; g++)
		fprintf(f, "gpu %s %x %x %u %s %u %u %u %u %u %d %u %u %u %u %s %s\n", g->address, g->device, g->subsystem, g->minor, g->uuid, g->memory, g->mig,
			g->kept, g->current, g->pending, g->resetless, g->virtualization, g->epoch, g->busy, g->lost, g->node, g->name);
	for (struct profile *p = profiles; p < profiles + profile_count; p++) {
		fprintf(f, "profile %u %u %u %u %u %u %u ", p->gpu, p->index, p->id, p->slices, p->memory, p->max, p->size);
		for (unsigned i = 0; i < p->places; i++)
			fprintf(f, "%s%u", i ? "," : "", p->starts[i]);
		fprintf(f, " %s\n", p->name);
	}
	for (struct gi *g = gis; g < gis + gi_count; g++)
		fprintf(f, "gi %u %u %u %u %u\n", g->gpu, g->id, g->profile, g->start, g->busy);
	for (struct ci *c = cis; c < cis + ci_count; c++)
		fprintf(f, "ci %u %u %u %u %u\n", c->gpu, c->gi, c->id, c->slices, c->start);
	for (struct process *p = processes; p < processes + process_count; p++)
		fprintf(f, "process %u %u %llu %u %u %u\n", p->gpu, p->pid, p->memory, p->gi, p->ci, p->graphics);
	for (struct knob *k = knobs; k < knobs + knob_count; k++)
		fprintf(f, "knob %s %s\n", k->name, k->value);
}

static void show_instances(void);

static void write_state(void)
{
	char next[PATH_MAX + 8];
	snprintf(next, sizeof next, "%s.next", path);
	FILE *f = fopen(next, "we");
	if (!f)
		return;
	print_state(f);
	/* A look may not rename: it writes the file where it is. */
	if (fclose(f) == 0 && rename(next, path) < 0 && (f = fopen(path, "we"))) {
		print_state(f);
		fclose(f);
	}
	see();
	show_instances();
}

/* unit is the last part of the cgroup, "-" if that is not known. */
static const char *unit(void)
{
	static char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *last = 0;
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "0::", 3))
			last = strrchr(line, '/');
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return last && last[1] ? last + 1 : "-";
}

static char log_file[400]; /* at nvmlInit: all calls of a process are logged, or none */

/* log_call appends the function, the GPU that it is for, and the caller's unit and pid, if the knob "log" named a file. */
static void log_call(const char *function, const struct gpu *g)
{
	FILE *f = log_file[0] ? fopen(log_file, "ae") : 0;
	if (!f)
		return;
	fprintf(f, "%s %s %s %d\n", function, g ? g->address : "-", unit(), getpid());
	fclose(f);
}

/*
 * failing is the status that a knob wants: "fail FUNCTION STATUS AFTER TIMES ADDRESS", after
 * so many calls, that many times (0: always), for one GPU ("-": any).
 */
static uint32_t failing(const char *function, const struct gpu *g)
{
	for (unsigned i = 0; i < knob_count; i++) {
		char name[64], address[32] = "-";
		unsigned status, after = 0, times = 0;
		if (strcmp(knobs[i].name, "fail") || sscanf(knobs[i].value, "%63s %u %u %u %31s", name, &status, &after, &times, address) < 2 ||
		    strcmp(name, function) || (strcmp(address, "-") && (!g || strcmp(address, g->address))))
			continue;
		if (after == 0 && times == 0)
			return status;
		if (after == 0 && times == 1)
			knobs[i] = knobs[--knob_count]; /* it has done its work */
		else
			snprintf(knobs[i].value, sizeof knobs[i].value, "%s %u %u %u %s", name, status, after ? after - 1 : 0, after ? times : times - 1, address);
		write_state();
		if (after == 0)
			return status;
	}
	return SUCCESS;
}

/*
 * meanwhile does what another process did since the last call: the knob "meanwhile FUNCTION LINE"
 * adds a line of the state, and "meanwhile FUNCTION gone GPU ID" destroys an instance, once.
 */
static void meanwhile(const char *function)
{
	int any = 0;
	for (unsigned i = 0; i < knob_count;) {
		char name[64], line[400];
		unsigned gpu, id;
		int at = 0;
		if (strcmp(knobs[i].name, "meanwhile") || sscanf(knobs[i].value, "%63s %n", name, &at) != 1 || strcmp(name, function)) {
			i++;
			continue;
		}
		snprintf(line, sizeof line, "%s", knobs[i].value + at);
		knobs[i] = knobs[--knob_count];
		any = 1;
		if (sscanf(line, "gone %u %u", &gpu, &id) != 2) {
			read_line(line);
			continue;
		}
		for (struct ci *c = cis; c < cis + ci_count;)
			if (c->gpu == gpu && c->gi == id)
				*c = cis[--ci_count];
			else
				c++;
		for (struct gi *g = gis; g < gis + gi_count;)
			if (g->gpu == gpu && g->id == id)
				*g = gis[--gi_count];
			else
				g++;
	}
	if (any)
		write_state();
}

/* misbehave does what knobs of a function's name want that is no status. */
static void misbehave(const char *function)
{
	const char *k;
	while ((k = knob("hang")) && !strcmp(k, function)) {
		flock(lock_fd, LOCK_UN);
		usleep(20000); /* until it is killed, or the knob is turned off */
		flock(lock_fd, LOCK_EX);
		read_state();
	}
	if ((k = knob("abort")) && !strcmp(k, function))
		abort();
	if ((k = knob("segv")) && !strcmp(k, function))
		*(volatile int *)8 = 1;
}

static unsigned long long milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* lies reports whether a change of a GPU, "mode" or "instance", is taken back later. */
static int lies(const struct gpu *g, const char *what)
{
	char address[32], only[16];
	const char *k = knob("late-lie");
	int n = k ? sscanf(k, "%31s %15s", address, only) : -1;
	return k && (n < 1 || !strcmp(address, g->address)) && (n < 2 || !strcmp(only, what));
}

/* later notes a line of the state that comes back in a second, in a knob of its own. */
static void later(const char *format, ...)
{
	struct knob *k = &knobs[knob_count];
	va_list args;
	if (knob_count == 64)
		return;
	strcpy(k->name, "later");
	int n = snprintf(k->value, sizeof k->value, "%llu ", milliseconds() + 1000);
	va_start(args, format);
	vsnprintf(k->value + n, sizeof k->value - n, format, args);
	va_end(args);
	knob_count++;
}

/* come_back lets what later noted come back when its time has come. */
static void come_back(void)
{
	int any = 0;
	for (unsigned i = 0; i < knob_count;) {
		unsigned long long when;
		unsigned gpu, mode;
		int at = 0;
		char line[400];
		if (strcmp(knobs[i].name, "later") || sscanf(knobs[i].value, "%llu %n", &when, &at) != 1 || when > milliseconds()) {
			i++;
			continue;
		}
		snprintf(line, sizeof line, "%s", knobs[i].value + at);
		knobs[i] = knobs[--knob_count];
		if (sscanf(line, "mode %u %u", &gpu, &mode) == 2 && gpu < gpu_count) {
			gpus[gpu].current = gpus[gpu].pending = mode;
			gpus[gpu].epoch++;
		} else {
			read_line(line);
		}
		any = 1;
	}
	for (unsigned i = 0; any && i < knob_count; i++)
		if (!strcmp(knobs[i].name, "late-lie"))
			knobs[i] = knobs[--knob_count];
	if (any)
		write_state();
}

static void leave(int *locked)
{
	(void)locked;
	if (lock_fd >= 0)
		close(lock_fd);
	lock_fd = -1;
}

static void enter(void)
{
	char lock[PATH_MAX + 8];
	find_state();
	snprintf(lock, sizeof lock, "%s.lock", path);
	lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (lock_fd >= 0)
		flock(lock_fd, LOCK_EX);
	if (changed())
		read_state();
	come_back();
}

/* Handles: what it is, the epoch of its GPU, and the ids. */
enum { DEVICE = 1, MIG_DEVICE, INSTANCE, COMPUTE };

static void *handle(unsigned kind, unsigned gpu, unsigned gi, unsigned ci)
{
	return (void *)((uint64_t)kind << 56 | (uint64_t)(gpus[gpu].epoch & 0xFFFF) << 32 | gpu << 16 | gi << 8 | ci);
}

static unsigned kind_of(void *h) { return (uint64_t)h >> 56; }
static unsigned gpu_of(void *h) { return (uint64_t)h >> 16 & 0xFF; }
static unsigned gi_of(void *h) { return (uint64_t)h >> 8 & 0xFF; }
static unsigned ci_of(void *h) { return (uint64_t)h & 0xFF; }

static struct gi *gi_at(unsigned gpu, unsigned id)
{
	for (struct gi *g = gis; g < gis + gi_count; g++)
		if (g->gpu == gpu && g->id == id)
			return g;
	return 0;
}

static struct ci *ci_at(unsigned gpu, unsigned gi, unsigned id)
{
	for (struct ci *c = cis; c < cis + ci_count; c++)
		if (c->gpu == gpu && c->gi == gi && c->id == id)
			return c;
	return 0;
}

/* check tells whether a handle is good for a call. */
static uint32_t check(const char *function, void *h, unsigned kinds)
{
	uint32_t status;
	if (!ready || started != epoch)
		return UNINITIALIZED;
	if (!(kinds >> kind_of(h) & 1) || gpu_of(h) >= gpu_count || ((uint64_t)h >> 32 & 0xFFFF) != (gpus[gpu_of(h)].epoch & 0xFFFF))
		return INVALID_ARGUMENT;
	struct gpu *g = &gpus[gpu_of(h)];
	log_call(function, g);
	meanwhile(function);
	misbehave(function);
	if ((status = failing(function, g)))
		return status;
	if (g->lost)
		return LOST;
	if (kind_of(h) != DEVICE && !gi_at(gpu_of(h), gi_of(h)))
		return NOT_FOUND;
	if ((kind_of(h) == COMPUTE || kind_of(h) == MIG_DEVICE) && !ci_at(gpu_of(h), gi_of(h), ci_of(h)))
		return NOT_FOUND;
	return SUCCESS;
}

#define ENTER __attribute__((cleanup(leave))) int locked = (enter(), 0)
#define CHECK(h, kinds)                                       \
	ENTER;                                                \
	uint32_t bad = check(__func__, h, kinds);             \
	if (bad)                                              \
		return bad;                                   \
	unsigned gpu = gpu_of(h);                             \
	struct gpu *g = &gpus[gpu];                           \
	(void)g, (void)locked
#define ON(kind) (1u << (kind))

/* allowed tells whether the process has CAP_SYS_ADMIN, as the driver asks for it. */
static int allowed(void)
{
	struct { uint32_t version; int pid; } header = {0x20080522, 0};
	struct { uint32_t effective, permitted, inheritable; } data[2];
	if (!privileged)
		return 1;
	return syscall(SYS_capget, &header, data) == 0 && data[0].effective >> 21 & 1;
}

/*
 * The driver of internal/testkit/e2e/vm/kmod, see nvidia.h there: it counts the other users of a
 * GPU, and shows the instances that it is given. Nodes without a driver, and a simulator's
 * files, refuse these requests.
 */
struct instances { uint32_t minor, unused; uint64_t present[3]; };
#define USERS _IOR('N', 0xd0, uint32_t)
#define INSTANCES _IOW('N', 0xd1, struct instances)

/*
 * in_use tells whether a process uses the GPU, and no instance that is known to be the one it
 * uses: as the state says, or with the GPU's node open.
 */
static int in_use(const struct gpu *g)
{
	const char *k = knob("in-use");
	if (g->busy || (k && !strcmp(k, g->address)))
		return 1;
	int fd = strcmp(g->node, "-") ? open(g->node, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0)
		return 0;
	uint32_t users;
	if (ioctl(fd, USERS, &users) == 0) {
		close(fd);
		return users > 0;
	}
	/* A lease to write is given to who alone has the file open. */
	int open_elsewhere = fcntl(fd, F_SETLEASE, F_WRLCK) < 0 && errno == EAGAIN;
	close(fd);
	return open_elsewhere;
}

/*
 * Nodes, if the knob "nodes DIR MAJOR" is there: DIR/nvidiactl and those of the GPUs are
 * opened, and as root made or corrected before, as the knob "params UID GID MODE MODIFY"
 * demands (0 0 0666 1 without it). The nodes of the capabilities have that major number and
 * are below DIR/nvidia-caps. Without a driver a node answers with another error than to a
 * process that may not open it.
 */
static int nodes(char *dir, unsigned *major)
{
	return knob("nodes") && sscanf(knob("nodes"), "%199s %u", dir, major) == 2;
}

/* show_instances gives the driver the instances of all GPUs. */
static void show_instances(void)
{
	char dir[200], node[PATH_MAX];
	unsigned major;
	if (!nodes(dir, &major))
		return;
	snprintf(node, sizeof node, "%s/nvidiactl", dir);
	int fd = open(node, O_RDWR | O_CLOEXEC);
	for (unsigned n = 0; fd >= 0 && n < gpu_count; n++) {
		struct instances all = {.minor = gpus[n].minor};
#define PRESENT(bit) (all.present[(bit) / 64] |= 1ull << (bit) % 64)
		for (struct gi *i = gis; i < gis + gi_count; i++)
			if (i->gpu == n)
				PRESENT(9 * i->id);
		for (struct ci *i = cis; i < cis + ci_count; i++)
			if (i->gpu == n)
				PRESENT(9 * i->gi + 1 + i->id);
		ioctl(fd, INSTANCES, &all);
	}
	if (fd >= 0)
		close(fd);
}

/* give sets the mode and the owner of what is there. */
static int give(const char *node, unsigned mode, unsigned uid, unsigned gid)
{
	return chmod(node, mode) == 0 && chown(node, uid, gid) == 0;
}

/* provide makes a node or corrects it. A new one that cannot get its owner is removed. */
static int provide(const char *node, dev_t number, unsigned mode, unsigned uid, unsigned gid)
{
	struct stat st;
	if (stat(node, &st) == 0 && st.st_rdev == number) {
		if ((st.st_mode & 07777) == mode && st.st_uid == uid && st.st_gid == gid)
			return 1;
		return give(node, mode, uid, gid);
	}
	unlink(node);
	if (mknod(node, S_IFCHR | mode, number) < 0)
		return 0;
	if (give(node, mode, uid, gid))
		return 1;
	unlink(node);
	return 0;
}

/* name_number links a node by its number, where there is a directory for that. */
static void name_number(const char *dir, const char *node, unsigned major, unsigned minor)
{
	char link[PATH_MAX], to[PATH_MAX];
	snprintf(link, sizeof link, "%s/char/%u:%u", dir, major, minor);
	snprintf(to, sizeof to, "..%s", node + strlen(dir));
	if (symlink(to, link) < 0)
		return; /* it has one, or no directory */
}

static int opens(const char *name, unsigned minor)
{
	char dir[200], node[PATH_MAX];
	unsigned major, uid = 0, gid = 0, mode = 0666, modify = 1;
	struct stat st;
	if (!nodes(dir, &major))
		return 1;
	if (knob("params"))
		sscanf(knob("params"), "%u %u %o %u", &uid, &gid, &mode, &modify);
	snprintf(node, sizeof node, "%s/%s", dir, name);
	/* Another file than a device is a simulator's. */
	if (modify && geteuid() == 0 && (stat(node, &st) < 0 || S_ISCHR(st.st_mode)))
		provide(node, makedev(195, minor), mode, uid, gid);
	if (stat(node, &st) == 0 && S_ISCHR(st.st_mode))
		name_number(dir, node, 195, minor);
	int fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != ENOENT && errno != EPERM && errno != EACCES);
}

static int opens_gpu(const struct gpu *g)
{
	char name[32];
	snprintf(name, sizeof name, "nvidia%u", g->minor);
	return opens(name, g->minor);
}

enum { CONFIG = 1, MONITOR, FIRST };

/* capability makes the node of a capability, and tells whether it can be opened. */
static int capability(unsigned minor, unsigned mode)
{
	char dir[200], node[PATH_MAX];
	unsigned major;
	struct stat st;
	if (!nodes(dir, &major))
		return geteuid() == 0;
	snprintf(node, sizeof node, "%s/nvidia-caps", dir);
	if (geteuid() == 0 && mkdir(node, 0755) == 0)
		give(node, 0755, 0, 0);
	snprintf(node, sizeof node, "%s/nvidia-caps/nvidia-cap%u", dir, minor);
	if (geteuid() == 0 && (stat(node, &st) < 0 || S_ISCHR(st.st_mode)))
		provide(node, makedev(major, minor), mode, 0, 0);
	if (stat(node, &st) < 0 || (S_ISCHR(st.st_mode) && st.st_rdev != makedev(major, minor)))
		return 0;
	if (S_ISCHR(st.st_mode))
		name_number(dir, node, major, minor);
	return access(node, R_OK) == 0;
}

/* has_node makes the node of an instance, or of one of its compute instances. */
static int has_node(const struct gpu *g, unsigned gi, int ci)
{
	char dir[200];
	unsigned major;
	return !nodes(dir, &major) || capability(FIRST + 135 * g->minor + 9 * gi + 1 + ci, 0666);
}

/*
 * may_list tells whether the process may list instances: with CAP_SYS_ADMIN or the
 * capability mig/config, which root's processes have where they can open its node.
 */
static int may_list(void)
{
	return !privileged || allowed() || capability(CONFIG, 0400);
}

/* beside is the name of a file with an ending. */
static const char *beside(const char *file, const char *end)
{
	static char names[2][PATH_MAX];
	static unsigned turn;
	char *name = names[turn++ % 2];
	snprintf(name, PATH_MAX, "%.4000s.%s", file, end);
	return name;
}

/* confess tries what hostile code would, and writes down what came of it. */
static void confess(const char *file)
{
	FILE *out = fopen(file, "ae"), *status = fopen("/proc/self/status", "re");
	char line[256], node[PATH_MAX];
	if (!out)
		abort();
	while (status && fgets(line, sizeof line, status))
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp:", 8))
			fputs(line, out);
	fprintf(out, "user: %d\n", getuid());
	snprintf(node, sizeof node, "%.4000s.node", file);
#define TRY(what, call) fprintf(out, what ": %s\n", (call) >= 0 ? "done" : strerror(errno))
	TRY("local socket", socket(AF_UNIX, SOCK_STREAM, 0));
	TRY("network", socket(AF_INET, SOCK_STREAM, 0));
	TRY("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	TRY("signal the caller", kill(getppid(), 0));
	TRY("user namespace", unshare(CLONE_NEWUSER));
	TRY("node", mknod(node, S_IFIFO | 0600, 0));
	TRY("disk", mknod("/nonexistent/disk", S_IFBLK | 0600, 0));
	TRY("mode", chmod(file, 0644));
	TRY("owner", chown(file, getuid(), getgid()));
	TRY("directory", mkdir(beside(file, "dir"), 0755));
	TRY("link", symlink(file, beside(file, "link")));
	TRY("rename", rename(beside(file, "old"), beside(file, "new")));
	TRY("removal", unlink(beside(file, "new")));
	TRY("type at the terminal", ioctl(2, TIOCSTI, "x"));
	TRY("run a program", execl("/bin/true", "true", (char *)0));
	fclose(out);
	if (status)
		fclose(status);
}

uint32_t nvmlInit_v2(void)
{
	uint32_t status;
	ENTER;
	snprintf(log_file, sizeof log_file, "%s", knob("log") ? knob("log") : "");
	log_call(__func__, 0);
	if (knob("confess"))
		confess(knob("confess"));
	if (knob("noise")) {
		printf("NVML says something of its own\n");
		fflush(stdout);
	}
	misbehave(__func__);
	if ((status = failing(__func__, 0)))
		return status;
	if (!loaded)
		return DRIVER_NOT_LOADED;
	if (ready && started == epoch) {
		ready++;
		return SUCCESS;
	}
	if (!opens("nvidiactl", 255))
		return errno == EPERM || errno == EACCES ? NO_PERMISSION : DRIVER_NOT_LOADED;
	capability(CONFIG, 0400);
	capability(MONITOR, 0444);
	ready++;
	started = epoch;
	return SUCCESS;
}

uint32_t nvmlShutdown(void)
{
	ENTER;
	log_call(__func__, 0);
	uint32_t status = failing(__func__, 0);
	if (!ready)
		return UNINITIALIZED;
	ready--;
	return status;
}

static uint32_t tell(char *text, uint32_t size, const char *what)
{
	if (strlen(what) >= size)
		return INSUFFICIENT_SIZE;
	snprintf(text, size, "%s", what);
	if (knob("garbage-text"))
		memset(text, 0xff, size);
	return SUCCESS;
}

uint32_t nvmlSystemGetDriverVersion(char *text, uint32_t size)
{
	ENTER;
	return tell(text, size, driver);
}

uint32_t nvmlSystemGetNVMLVersion(char *text, uint32_t size)
{
	ENTER;
	return tell(text, size, version);
}

uint32_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
	ENTER;
	if (!ready || started != epoch)
		return UNINITIALIZED;
	for (unsigned i = 0; i < gpu_count; i++)
		if (!strcasecmp(id, gpus[i].address)) {
			unsigned other = knob("other-gpu") ? (i + 1) % gpu_count : i;
			*device = knob("null-handles") ? 0 : handle(DEVICE, other, 0, 0);
			if (!opens_gpu(&gpus[i]))
				return knob("unlisted") ? NOT_FOUND : NO_PERMISSION;
			return check(__func__, handle(DEVICE, other, 0, 0), ON(DEVICE));
		}
	return NOT_FOUND;
}

uint32_t nvmlDeviceGetCount_v2(uint32_t *count)
{
	ENTER;
	if (!ready || started != epoch)
		return UNINITIALIZED;
	*count = gpu_count;
	return SUCCESS;
}

uint32_t nvmlDeviceGetHandleByIndex_v2(uint32_t index, void **device)
{
	if (index < gpu_count)
		return nvmlDeviceGetHandleByPciBusId_v2(gpus[index].address, device);
	return NOT_FOUND;
}

/* Each GPU is near to all CPUs. */
uint32_t nvmlDeviceGetCpuAffinity(void *device, uint32_t size, unsigned long *set)
{
	CHECK(device, ON(DEVICE));
	memset(set, 0, size * sizeof *set);
	for (long i = sysconf(_SC_NPROCESSORS_ONLN); i-- > 0;)
		if ((unsigned long)i / (8 * sizeof *set) < size)
			set[i / (8 * sizeof *set)] |= 1ul << i % (8 * sizeof *set);
	return SUCCESS;
}

const char *nvmlErrorString(uint32_t status) { return status == NOT_SUPPORTED ? "Not Supported" : "error of the stand-in"; }

/* Functions that Slurm's plugin calls, for what the simulated GPUs do not have. */
#define LACKS(function) uint32_t function(void) { return NOT_SUPPORTED; }
LACKS(nvmlDeviceGetNvLinkState)
LACKS(nvmlDeviceGetNvLinkRemotePciInfo_v2)
LACKS(nvmlDeviceGetSupportedMemoryClocks)
LACKS(nvmlDeviceGetSupportedGraphicsClocks)

uint32_t nvmlDeviceGetPciInfo_v3(void *device, pci_t *p)
{
	CHECK(device, ON(DEVICE));
	memset(p, 0, sizeof *p);
	sscanf(g->address, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	p->pciDeviceId = g->device;
	p->pciSubSystemId = g->subsystem;
	snprintf(p->busId, sizeof p->busId, "%08X:%02X:%02X.0", p->domain, p->bus & 0xFF, p->device & 0xFF);
	snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain & 0xFFFF, p->bus & 0xFF, p->device & 0xFF);
	return SUCCESS;
}

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
	for (const unsigned char *b = data; size--; b++)
		hash = (hash ^ *b) * 0x100000001b3;
	return hash;
}

/* The UUID of a MIG device is one of the GPU and of the instances' ids. */
static void mig_uuid(char *text, size_t size, unsigned gpu, unsigned gi, unsigned ci)
{
	unsigned ids[] = {gi, ci};
	uint64_t a = mix(mix(0xcbf29ce484222325, gpus[gpu].uuid, strlen(gpus[gpu].uuid)), ids, sizeof ids), b = mix(a, "b", 1);
	snprintf(text, size, "MIG-%08x-%04x-5%03x-8%03x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFF), (unsigned)(b >> 52),
		 (unsigned long long)(b & 0xFFFFFFFFFFFF));
}

uint32_t nvmlDeviceGetUUID(void *device, char *text, uint32_t size)
{
	char uuid[64];
	CHECK(device, ON(DEVICE) | ON(MIG_DEVICE));
	if (kind_of(device) == DEVICE)
		return tell(text, size, g->uuid);
	mig_uuid(uuid, sizeof uuid, gpu, gi_of(device), ci_of(device));
	return tell(text, size, uuid);
}

uint32_t nvmlDeviceGetName(void *device, char *text, uint32_t size)
{
	char name[160];
	CHECK(device, ON(DEVICE) | ON(MIG_DEVICE));
	snprintf(name, sizeof name, "%s", g->name);
	for (struct gi *i = gis; kind_of(device) == MIG_DEVICE && i < gis + gi_count; i++)
		if (i->gpu == gpu && i->id == gi_of(device))
			snprintf(name, sizeof name, "%s MIG %s", g->name, profiles[i->profile].name);
	return tell(text, size, name);
}

/* The serial number of the board, as of an H100: 13 digits. */
uint32_t nvmlDeviceGetSerial(void *device, char *text, uint32_t size)
{
	char serial[32];
	CHECK(device, ON(DEVICE));
	if (knob("no-serial"))
		return NOT_SUPPORTED;
	snprintf(serial, sizeof serial, "16500000%05u", gpu);
	return tell(text, size, serial);
}

uint32_t nvmlDeviceGetMinorNumber(void *device, uint32_t *minor)
{
	CHECK(device, ON(DEVICE));
	*minor = g->minor;
	return SUCCESS;
}

uint32_t nvmlDeviceGetVirtualizationMode(void *device, uint32_t *mode)
{
	CHECK(device, ON(DEVICE));
	*mode = knob("garbage-count") ? 77 : g->virtualization;
	return SUCCESS;
}

uint32_t nvmlDeviceGetFieldValues(void *device, int32_t count, field_t *fields)
{
	CHECK(device, ON(DEVICE));
	for (int i = 0; i < count; i++) {
		fields[i].valueType = 1;
		fields[i].nvmlReturn = fields[i].fieldId == 184 && g->resetless >= 0 ? SUCCESS : NOT_SUPPORTED;
		fields[i].value.u = g->resetless > 0;
	}
	return SUCCESS;
}

static struct profile *profile_of(const struct gi *gi) { return &profiles[gi->profile]; }

/* What the driver reserves of a GPU for itself: 480 MiB of an H100 with 580.159.04. */
#define RESERVED (480ull << 20)

static memory_v2_t memory_of(void *device, unsigned gpu, const struct gpu *g)
{
	int whole = kind_of(device) == DEVICE;
	memory_v2_t m = {.total = (whole ? g->memory : profile_of(gi_at(gpu, gi_of(device)))->memory) * 1ull << 20, .reserved = whole ? RESERVED : 0};
	for (struct process *p = processes; p < processes + process_count; p++)
		if (p->gpu == gpu && (whole || (p->gi == gi_of(device) && p->ci == ci_of(device))))
			m.used += p->memory;
	if (knob("garbage-count"))
		m.used = ~0ull;
	m.free = m.total - m.reserved - m.used;
	return m;
}

uint32_t nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *m)
{
	CHECK(device, ON(DEVICE) | ON(MIG_DEVICE));
	uint32_t version = m->version;
	if (version != 0x2000028)
		return VERSION_MISMATCH;
	*m = memory_of(device, gpu, g);
	m->version = version;
	return SUCCESS;
}

/* The first version counts what the driver reserves as used. */
uint32_t nvmlDeviceGetMemoryInfo(void *device, memory_t *m)
{
	CHECK(device, ON(DEVICE) | ON(MIG_DEVICE));
	memory_v2_t v2 = memory_of(device, gpu, g);
	*m = (memory_t){v2.total, v2.free, knob("garbage-count") ? ~0ull : v2.used + v2.reserved};
	return SUCCESS;
}

uint32_t nvmlDeviceGetUtilizationRates(void *device, utilization_t *u)
{
	CHECK(device, ON(DEVICE) | ON(MIG_DEVICE));
	if (kind_of(device) == MIG_DEVICE && !knob("mig-utilization"))
		return NOT_SUPPORTED;
	*u = (utilization_t){g->busy || process_count ? 97 : 0, 12};
	return SUCCESS;
}

/* 300 W since the boot of the host, in millijoules. */
uint32_t nvmlDeviceGetTotalEnergyConsumption(void *device, uint64_t *energy)
{
	CHECK(device, ON(DEVICE));
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	*energy = 300 * ((uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	return SUCCESS;
}

static uint32_t running(unsigned gpu, uint32_t *count, process_t *out, unsigned graphics)
{
	unsigned n = 0;
	for (struct process *p = processes; p < processes + process_count; p++)
		if (p->gpu == gpu && p->graphics == graphics) {
			if (n < *count && out)
				out[n] = (process_t){p->pid, p->memory, p->gi, p->ci};
			n++;
		}
	uint32_t status = n > *count ? INSUFFICIENT_SIZE : SUCCESS;
	*count = knob("garbage-count") ? 1u << 30 : n;
	return status;
}

uint32_t nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *count, process_t *out)
{
	CHECK(device, ON(DEVICE));
	return running(gpu, count, out, 0);
}

uint32_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, uint32_t *count, process_t *out)
{
	CHECK(device, ON(DEVICE));
	return running(gpu, count, out, 1);
}

uint32_t nvmlDeviceGetMigMode(void *device, uint32_t *current, uint32_t *pending)
{
	CHECK(device, ON(DEVICE));
	if (!g->mig)
		return NOT_SUPPORTED;
	*current = knob("garbage-mode") ? 5 : g->current;
	*pending = g->pending;
	return SUCCESS;
}

static int instances_on(unsigned gpu)
{
	int n = 0;
	for (struct gi *i = gis; i < gis + gi_count; i++)
		n += i->gpu == gpu;
	return n;
}

static int instances_busy(unsigned gpu)
{
	int n = 0;
	for (struct gi *i = gis; i < gis + gi_count; i++)
		n += i->gpu == gpu && i->busy;
	return n;
}

uint32_t nvmlDeviceSetMigMode(void *device, uint32_t mode, uint32_t *activation)
{
	CHECK(device, ON(DEVICE));
	unsigned wanted;
	char address[32] = "-";
	if (!g->mig)
		return NOT_SUPPORTED;
	if (mode > 1)
		return INVALID_ARGUMENT;
	if (!allowed() || g->virtualization == 2)
		return NO_PERMISSION;
	*activation = SUCCESS;
	if (knob("mode-nothing"))
		return SUCCESS;
	g->pending = mode;
	if (g->current != mode && knob("mode-activation") && sscanf(knob("mode-activation"), "%u %31s", &wanted, address) >= 1 && (*address == '-' || !strcmp(address, g->address)))
		*activation = wanted;
	else if (in_use(g) || instances_busy(gpu) || (instances_on(gpu) && !mode) || (held && !g->resetless && g->current != mode))
		*activation = IN_USE;
	else if (g->current != mode && !knob("mode-late")) {
		if (lies(g, "mode"))
			later("mode %u %u", gpu, g->current);
		g->current = mode;
		g->epoch++; /* bound anew, or reset: the handles are of the past */
	}
	write_state();
	return SUCCESS;
}

uint32_t nvmlDeviceGetMaxMigDeviceCount(void *device, uint32_t *count)
{
	CHECK(device, ON(DEVICE));
	*count = 0;
	for (struct profile *p = profiles; g->current && p < profiles + profile_count; p++)
		if (p->gpu == gpu && p->slices > *count)
			*count = p->slices;
	if (knob("garbage-count"))
		*count = 1u << 30;
	return SUCCESS;
}

/* As with the real one, the index of a device is not the number of those before it. */
uint32_t nvmlDeviceGetMigDeviceHandleByIndex(void *device, uint32_t index, void **mig)
{
	CHECK(device, ON(DEVICE));
	unsigned n = 0;
	for (struct ci *c = cis; c < cis + ci_count; c++)
		if (c->gpu == gpu && n++ == index) {
			*mig = handle(MIG_DEVICE, gpu, c->gi, c->id);
			return SUCCESS;
		}
	return NOT_FOUND;
}

uint32_t nvmlDeviceGetGpuInstanceId(void *mig, uint32_t *id)
{
	CHECK(mig, ON(MIG_DEVICE));
	*id = gi_of(mig);
	return SUCCESS;
}

uint32_t nvmlDeviceGetComputeInstanceId(void *mig, uint32_t *id)
{
	CHECK(mig, ON(MIG_DEVICE));
	*id = ci_of(mig);
	return SUCCESS;
}

/* by_index is the profile at an index, if the GPU tells of it as it is. */
static struct profile *by_index(unsigned gpu, uint32_t index)
{
	if (!gpus[gpu].mig || (knob("profiles-with-mig") && !gpus[gpu].current))
		return 0;
	for (struct profile *p = profiles; p < profiles + profile_count; p++)
		if (p->gpu == gpu && p->index == index)
			return p;
	return 0;
}

/* absent is the status for an index without a profile: past the last one it is another. */
static uint32_t absent(uint32_t index)
{
	unsigned count = knob("profile-count") ? atoi(knob("profile-count")) : 0x12;
	for (struct profile *p = profiles; p < profiles + profile_count; p++)
		count = p->index >= count ? p->index + 1 : count;
	return index < count ? NOT_SUPPORTED : INVALID_ARGUMENT;
}

static struct profile *by_id(unsigned gpu, uint32_t id)
{
	for (struct profile *p = profiles; p < profiles + profile_count; p++)
		if (p->gpu == gpu && p->id == id)
			return p;
	return 0;
}

static unsigned told(const struct profile *p)
{
	if (knob("garbage-count"))
		return 1u << 30;
	return p->max + (knob("wrong-counts") ? atoi(knob("wrong-counts")) : 0);
}

uint32_t nvmlDeviceGetGpuInstanceProfileInfo(void *device, uint32_t index, gi_profile_v1_t *info)
{
	CHECK(device, ON(DEVICE));
	struct profile *p = by_index(gpu, index);
	if (!p)
		return absent(index);
	memset(info, 0, sizeof *info);
	info->id = p->id, info->sliceCount = p->slices, info->instanceCount = told(p), info->memorySizeMB = p->memory;
	return SUCCESS;
}

uint32_t nvmlDeviceGetGpuInstanceProfileInfoV(void *device, uint32_t index, gi_profile_v2_t *info)
{
	CHECK(device, ON(DEVICE));
	struct profile *p = by_index(gpu, index);
	gi_profile_v3_t *v3 = (void *)info;
	if (info->version != 0x2000098 && info->version != 0x3000098)
		return VERSION_MISMATCH;
	if (!p)
		return absent(index);
	if (knob("names-with-mig") && !g->current)
		return NOT_SUPPORTED;
	if (info->version == 0x2000098) {
		info->id = p->id, info->sliceCount = p->slices, info->instanceCount = told(p), info->memorySizeMB = p->memory;
		snprintf(info->name, sizeof info->name, "MIG %s", knob("garbage-name") ? "7 of 9\033[2J" : p->name);
	} else {
		/* As 580.159.04 with an H100: the name is made and written as if the structure were
		   that of version 2, so that an H100's 2g.20gb is "MIG 3g.0gb", eight bytes late. */
		v3->id = p->id, v3->sliceCount = p->slices, v3->instanceCount = told(p), v3->memorySizeMB = p->memory;
		memset(v3->name, 0, sizeof v3->name);
		v3->capabilities = 0;
		snprintf(info->name, sizeof info->name, "MIG %ug.%ugb", info->sliceCount, (unsigned)(info->memorySizeMB >> 10));
	}
	info->version = 0;
	return SUCCESS;
}

uint32_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, uint32_t id, placement_t *out, uint32_t *count)
{
	CHECK(device, ON(DEVICE));
	struct profile *p = by_id(gpu, id);
	if (!p || (knob("places-with-mig") && !g->current))
		return NOT_SUPPORTED;
	for (unsigned i = 0; out && i < p->places; i++)
		out[i] = (placement_t){p->starts[i], knob("garbage-placement") ? 99 : p->size};
	*count = p->places;
	return SUCCESS;
}

uint32_t nvmlDeviceGetGpuInstances(void *device, uint32_t id, void **out, uint32_t *count)
{
	CHECK(device, ON(DEVICE));
	if (!g->current)
		return NOT_SUPPORTED;
	if (!by_id(gpu, id))
		return INVALID_ARGUMENT;
	if (instances_on(gpu) && !may_list())
		return NO_PERMISSION;
	unsigned n = 0;
	for (struct gi *i = gis; i < gis + gi_count; i++)
		if (i->gpu == gpu && profile_of(i)->id == id)
			out[n++] = knob("null-instances") ? 0 : handle(INSTANCE, gpu, i->id, 0);
	*count = knob("garbage-count") ? 1u << 30 : n;
	return SUCCESS;
}

static uint64_t run(unsigned start, unsigned size) { return ((1ull << size) - 1) << start; }

static int ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && !strcmp(text + n - m, end);
}

/*
 * engines are the JPEG and OFA engines that instances of a profile take, of which there is
 * one on the boards with +me profiles: all of them, one, or none.
 */
enum { NO_ENGINES, ONE_ENGINE, ALL_ENGINES };

static int engines(const struct profile *p)
{
	if (ends_with(p->name, "+me.all"))
		return ALL_ENGINES;
	return ends_with(p->name, "+me") ? ONE_ENGINE : NO_ENGINES;
}

/* excludes tells whether two instances of these profiles need the same media engines. */
static int excludes(const struct profile *a, const struct profile *b)
{
	if (engines(a) == ALL_ENGINES || engines(b) == ALL_ENGINES)
		return !ends_with((engines(a) == ALL_ENGINES ? b : a)->name, "-me");
	return engines(a) == ONE_ENGINE && engines(b) == ONE_ENGINE;
}

static int fits(unsigned gpu, const struct profile *p, unsigned start)
{
	unsigned same = 0;
	for (struct gi *i = gis; i < gis + gi_count; i++) {
		if (i->gpu != gpu)
			continue;
		struct profile *q = profile_of(i);
		same += q == p;
		if (run(i->start, q->size) & run(start, p->size) || excludes(p, q))
			return 0;
	}
	return same < p->max;
}

/* next_id is the id of a new GPU instance, which is no function of where it starts. */
static unsigned next_id(unsigned gpu, const struct profile *p)
{
	unsigned first = p->size >= 8 ? 0 : p->slices >= 3 ? 1 : p->slices == 2 ? 3 : 7;
	const char *reversed = knob("ids-reversed");
	if (reversed && *reversed && strcmp(reversed, gpus[gpu].address))
		reversed = 0;
	for (unsigned id = 14; reversed && id > 0; id--)
		if (!gi_at(gpu, id))
			return id;
	while (gi_at(gpu, first))
		first++;
	return first;
}

uint32_t nvmlDeviceCreateGpuInstanceWithPlacement(void *device, uint32_t id, const placement_t *at, void **instance)
{
	CHECK(device, ON(DEVICE));
	struct profile *p = by_id(gpu, id);
	unsigned known = 0;
	if (!g->current || g->virtualization == 2)
		return NOT_SUPPORTED;
	if (!allowed())
		return NO_PERMISSION;
	for (unsigned i = 0; p && i < p->places; i++)
		known |= p->starts[i] == at->start && p->size == at->size;
	if (!known)
		return INVALID_ARGUMENT;
	if (!fits(gpu, p, at->start) || gi_count == MOST)
		return INSUFFICIENT_RESOURCES;
	struct gi *i = &gis[gi_count];
	*i = (struct gi){gpu, next_id(gpu, p), p - profiles, at->start, 0};
	for (unsigned n = 0; knob("misplaced") && n < p->places; n++)
		if (p->starts[n] != at->start && fits(gpu, p, p->starts[n]))
			i->start = p->starts[n];
	if (!has_node(g, i->id, -1))
		return NO_PERMISSION;
	gi_count++;
	*instance = handle(INSTANCE, gpu, i->id, 0);
	write_state();
	return SUCCESS;
}

uint32_t nvmlGpuInstanceGetInfo(void *instance, gi_info_t *info)
{
	CHECK(instance, ON(INSTANCE));
	struct gi *i = gi_at(gpu, gi_of(instance));
	*info = (gi_info_t){handle(DEVICE, gpu, 0, 0), i->id, profile_of(i)->id, {i->start, profile_of(i)->size}};
	return SUCCESS;
}

uint32_t nvmlGpuInstanceDestroy(void *instance)
{
	CHECK(instance, ON(INSTANCE));
	struct gi *i = gi_at(gpu, gi_of(instance));
	if (!allowed())
		return NO_PERMISSION;
	for (struct ci *c = cis; c < cis + ci_count; c++)
		if (c->gpu == gpu && c->gi == i->id)
			return IN_USE;
	if (i->busy || in_use(g))
		return IN_USE;
	if (lies(g, "instance"))
		later("gi %u %u %u %u 0", gpu, i->id, i->profile, i->start);
	*i = gis[--gi_count];
	write_state();
	return SUCCESS;
}

/*
 * Compute instance profiles, by the index, which here is their id too: the slices of one.
 * Newer libraries have one more of seven slices, which the knob "compute-nvl" puts in the
 * place of the other. No board here offers the second one of one slice.
 */
static const unsigned compute_slices[] = {1, 2, 3, 4, 7, 8, 6, 1, 7, 7};
enum { SEVEN = 4, SEVEN_NVL = 8, SEVEN_LATER = 9, COMPUTES = 10 };

/* compute_index is the index of the profile of compute instances with so many slices. */
static unsigned compute_index(unsigned slices)
{
	unsigned index = 0;
	if (slices == 7 && knob("compute-nvl"))
		return knob("compute-nvl")[0] == '9' ? SEVEN_LATER : SEVEN_NVL;
	while (compute_slices[index] != slices)
		index++;
	return index;
}

/* offers_compute is the status of a compute instance profile in a GPU instance. */
static uint32_t offers_compute(const struct profile *p, uint32_t index)
{
	unsigned count = strncmp(driver, "535.", 4) && strncmp(driver, "550.", 4) ? SEVEN_NVL + 1 : SEVEN_NVL;
	if (compute_index(7) >= count)
		count = compute_index(7) + 1;
	if (index >= count)
		return INVALID_ARGUMENT;
	return compute_slices[index] <= p->slices && compute_index(compute_slices[index]) == index ? SUCCESS : NOT_SUPPORTED;
}

uint32_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *instance, uint32_t index, uint32_t engine, ci_profile_v2_t *info)
{
	CHECK(instance, ON(INSTANCE));
	struct profile *p = profile_of(gi_at(gpu, gi_of(instance)));
	if (info->version != 0x2000088)
		return VERSION_MISMATCH;
	if (engine)
		return NOT_SUPPORTED;
	uint32_t status = offers_compute(p, index);
	if (status)
		return status;
	info->id = index;
	info->sliceCount = knob("garbage-slices") ? 9999 : compute_slices[index];
	info->instanceCount = p->slices / compute_slices[index];
	if (compute_slices[index] == p->slices)
		snprintf(info->name, sizeof info->name, "MIG %s", p->name);
	else
		snprintf(info->name, sizeof info->name, "MIG %uc.%s", compute_slices[index], p->name);
	return SUCCESS;
}

uint32_t nvmlGpuInstanceGetComputeInstances(void *instance, uint32_t id, void **out, uint32_t *count)
{
	CHECK(instance, ON(INSTANCE));
	uint32_t status = offers_compute(profile_of(gi_at(gpu, gi_of(instance))), id);
	if (status)
		return status;
	if (!may_list())
		return NO_PERMISSION;
	unsigned n = 0;
	for (struct ci *c = cis; c < cis + ci_count; c++)
		if (c->gpu == gpu && c->gi == gi_of(instance) && c->slices == compute_slices[id])
			out[n++] = handle(COMPUTE, gpu, c->gi, c->id);
	*count = n;
	return SUCCESS;
}

uint32_t nvmlGpuInstanceCreateComputeInstance(void *instance, uint32_t id, void **compute)
{
	CHECK(instance, ON(INSTANCE));
	struct profile *p = profile_of(gi_at(gpu, gi_of(instance)));
	uint64_t taken = 0;
	unsigned ci = 0, start = 0;
	if (!allowed())
		return NO_PERMISSION;
	uint32_t status = offers_compute(p, id);
	if (status)
		return status;
	for (struct ci *c = cis; c < cis + ci_count; c++)
		if (c->gpu == gpu && c->gi == gi_of(instance))
			taken |= run(c->start, c->slices);
	while (taken & run(start, compute_slices[id]))
		start++;
	if (start + compute_slices[id] > p->slices || ci_count == MOST)
		return INSUFFICIENT_RESOURCES;
	while (ci_at(gpu, gi_of(instance), ci))
		ci++;
	*compute = handle(COMPUTE, gpu, gi_of(instance), ci);
	if (!has_node(g, gi_of(instance), ci))
		return NO_PERMISSION;
	if (knob("ghost-compute"))
		return SUCCESS;
	cis[ci_count++] = (struct ci){gpu, gi_of(instance), ci, compute_slices[id], start};
	write_state();
	return SUCCESS;
}

uint32_t nvmlComputeInstanceGetInfo_v2(void *compute, ci_info_t *info)
{
	CHECK(compute, ON(COMPUTE));
	struct ci *c = ci_at(gpu, gi_of(compute), ci_of(compute));
	*info = (ci_info_t){handle(DEVICE, gpu, 0, 0), handle(INSTANCE, gpu, c->gi, 0), c->id, compute_index(c->slices), {c->start, c->slices}};
	return SUCCESS;
}

uint32_t nvmlComputeInstanceDestroy(void *compute)
{
	CHECK(compute, ON(COMPUTE));
	struct ci *c = ci_at(gpu, gi_of(compute), ci_of(compute));
	if (!allowed())
		return NO_PERMISSION;
	for (struct process *p = processes; p < processes + process_count; p++)
		if (p->gpu == gpu && p->gi == c->gi && p->ci == c->id)
			return IN_USE;
	if (gi_at(gpu, c->gi)->busy || in_use(g))
		return IN_USE;
	*c = cis[--ci_count];
	write_state();
	return SUCCESS;
}
