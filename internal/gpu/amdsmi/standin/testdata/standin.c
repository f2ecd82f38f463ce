/*
 * A stand-in for libamd_smi.so over a sysfs tree, in the numbering and with the
 * structures of one generation of the library, chosen by GEN:
 *
 *   2304  23.4.0  ROCm 6.0       2405  24.5.2  ROCm 6.1.2   2406  24.6.3  ROCm 6.2.4
 *   2407  24.7.0  towards 6.3    2601  26.1.0  ROCm 7.1     2701  27.1.0  ROCm 10.1
 *
 * The numbers and structures are written down here by themselves, as C declares
 * them, so that a mistake in dcm's tables shows.
 *
 * It reads its knobs, one "name value" a line, from a file beside itself with
 * ".knobs" behind its name: "sys PATH" is the tree; the others are below.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#if GEN < 2406
#define NAME 64
#else
#define NAME 256
#endif
#if GEN < 2601
#define STRING 64
#define SERIAL 32
#else
#define STRING 256
#define SERIAL 256
#endif

typedef struct {
	uint32_t year, major, minor, release;
	const char *build;
} version_t;

typedef struct {
	char market_name[NAME];
	uint32_t vendor_id;
	char vendor_name[STRING];
	uint32_t subvendor_id;
	uint64_t device_id;
	uint32_t rev_id;
	char asic_serial[SERIAL];
	uint32_t oam_id;
	uint32_t num_cu;
	uint64_t gfx_version;
} asic_t;

typedef struct {
#if GEN == 2304
	char name[STRING], version[STRING], date[STRING];
#else
	char version[STRING], date[STRING], name[STRING];
#endif
} driver_t;

typedef struct {
	uint64_t kfd_id;
	uint32_t node_id, partition_id, reserved[12];
} kfd_t;

#if GEN < 2407
static const char *const compute_modes[] = {0, "CPX", "SPX", "DPX", "TPX", "QPX", 0, 0, 0};
#else
static const char *const compute_modes[] = {0, "SPX", "DPX", "TPX", "QPX", "CPX", 0, 0, 0};
#endif
#if GEN < 2601
static const char *const memory_modes[] = {0, "NPS1", "NPS2", "NPS4", "NPS8", 0, 0, 0, 0};
#else
static const char *const memory_modes[] = {0, "NPS1", "NPS2", 0, "NPS4", 0, 0, 0, "NPS8"};
#endif
#if GEN < 2406
#define INVALID 0xFFFFFFFFu
#else
#define INVALID 1u
#endif

enum { SUCCESS = 0, INVAL = 1, UNSUPPORTED = 2, NO_PERM = 10, BUSY = 30, UNINITIALISED = 32, NO_DRIVER = 34,
       SIZE = 41, IO = 42, NO_DEVICE = 43, NOT_AVAILABLE = 55 };

#define MOST 128
static struct gpu {
	char dir[512];
	uint64_t bdf;
	int partition;
} gpus[MOST];
static int count, ready;
static char knobs[4096];

static void read_knobs(void)
{
	Dl_info self;
	char file[4000], path[4096];
	if (!dladdr((void *)read_knobs, &self))
		return;
	/* It may be loaded by its descriptor. */
	ssize_t len = readlink(self.dli_fname, file, sizeof file - 1);
	file[len > 0 ? len : 0] = 0;
	snprintf(path, sizeof path, "%s.knobs", len > 0 ? file : self.dli_fname);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, knobs, sizeof knobs - 1);
	knobs[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* knob returns the value of a knob, "" for one without a value, 0 if not set. */
static const char *knob(const char *name)
{
	static char value[4096];
	size_t len = strlen(name);
	for (const char *line = knobs; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (strncmp(line, name, len) || (line[len] != ' ' && line[len] != '\n' && line[len]))
			continue;
		line += len + (line[len] == ' ');
		snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\n"), line);
		return value;
	}
	return 0;
}

static int read_file(const char *dir, const char *name, char *text, size_t size)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	ssize_t n = read(fd, text, size - 1);
	int err = errno;
	close(fd);
	if (n < 0)
		return err;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return 0;
}

static int write_file(const char *dir, const char *name, const char *text)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return errno;
	ssize_t n = write(fd, text, strlen(text));
	int err = errno;
	close(fd);
	return n < 0 ? err : 0;
}

static uint32_t status(int err, int memory)
{
	switch (err) {
	case 0: return SUCCESS;
	case EBUSY: return BUSY;
	case EACCES: return memory ? UNSUPPORTED : NO_PERM;
	case EINVAL: return INVALID;
	case EIO: return IO;
	case ENXIO: case ENODEV: return NO_DEVICE;
	default: return UNSUPPORTED;
	}
}

/* confess tries what hostile code would, and writes down what came of it. */
static void confess(void)
{
	FILE *out = fopen(knob("confess"), "a"), *status = fopen("/proc/self/status", "r");
	char line[256];
	if (!out)
		abort();
	while (status && fgets(line, sizeof line, status))
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp:", 8))
			fputs(line, out);
	fprintf(out, "user: %d\n", getuid());
#define TRY(what, call) fprintf(out, what ": %s\n", (call) >= 0 ? "done" : strerror(errno))
	TRY("read shadow", open("/etc/shadow", O_RDONLY));
	TRY("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	TRY("signal the caller", kill(getppid(), 0));
	TRY("user namespace", unshare(CLONE_NEWUSER));
	/* As the real one does; it does not look whether it got a pipe. */
	FILE *pipe = popen("kill -0 $PPID && echo signal: sent || echo signal: refused", "r");
	while (fgets(line, sizeof line, pipe))
		fprintf(out, "shell's %s", line);
	pclose(pipe);
	TRY("type at the terminal", ioctl(2, TIOCSTI, "x"));
	fclose(out);
}

/* litter leaves what the real library leaves at every start. */
static void litter(void)
{
	char path[] = "/tmp/rocmsmi_boot_compute_partition_0_XXXXXX";
	int fd = mkstemp(path);
	if (fd >= 0)
		close(fd);
	fd = open("/dev/shm/rocm_smi_card0", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
}

#if GEN >= 2407
static int partitions(const char *mode)
{
	static const char *const modes[] = {"SPX", "DPX", "TPX", "QPX", "", "", "", "CPX"};
	for (int i = 0; i < 8; i++)
		if (!strcmp(modes[i], mode))
			return i + 1;
	return 1;
}
#endif

static void add(const char *dir, const char *name)
{
	char mode[64];
	unsigned domain, bus, device, function;
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return;
	if (read_file(path, "current_compute_partition", mode, sizeof mode))
		return;
#if GEN < 2407
	int n = 1;
#else
	/* The first partition comes last, to see that it is looked for. */
	int n = partitions(mode);
#endif
	for (int i = n - 1; i >= 0 && count < MOST; i--) {
		struct gpu *g = &gpus[count++];
		snprintf(g->dir, sizeof g->dir, "%s", path);
		g->bdf = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
		g->partition = i;
	}
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

uint32_t amdsmi_init(uint64_t flags)
{
	read_knobs();
	if (knob("litter"))
		litter();
	if (knob("confess"))
		confess();
	if (knob("noise")) {
		printf("ROCm says something of its own\n");
		fflush(stdout);
	}
	if (knob("init-abort"))
		abort();
	if (knob("init-segv"))
		*(volatile int *)8 = 1;
	while (knob("init-hang"))
		pause();
	if (knob("init-status"))
		return atoi(knob("init-status"));
	if (flags != 2)
		return INVAL;
	char dir[256], initstate[64];
	snprintf(dir, sizeof dir, "%.200s/module/amdgpu", knob("sys"));
	if (read_file(dir, "initstate", initstate, sizeof initstate) || strcmp(initstate, "live"))
		return NO_DRIVER;
	snprintf(dir, sizeof dir, "%.200s/bus/pci/devices", knob("sys"));
	struct dirent **list;
	int n = scandir(dir, &list, 0, by_name);
	count = 0;
	for (int i = 0; i < n; i++)
		add(dir, list[i]->d_name);
	ready = 1;
	return SUCCESS;
}

uint32_t amdsmi_shut_down(void)
{
	ready = 0;
	return SUCCESS;
}

uint32_t amdsmi_get_lib_version(version_t *v)
{
	static char endless[4096];
	if (!ready)
		return UNINITIALISED;
	v->build = VERSION;
	if (knob("version"))
		v->build = strdup(knob("version"));
	if (knob("version-null"))
		v->build = 0;
	if (knob("version-wild"))
		v->build = (const char *)0x7f0000000010;
	if (knob("version-endless"))
		v->build = memset(endless, '7', sizeof endless);
	if (knob("version-status"))
		return atoi(knob("version-status"));
	return SUCCESS;
}

static uint32_t give(uint32_t *n, void **handles, int there, int first)
{
	if (!ready)
		return UNINITIALISED;
	if (knob("handles-many")) {
		*n = 1u << 30;
		return SUCCESS;
	}
	if (!handles || *n > (uint32_t)there)
		*n = there;
	for (uint32_t i = 0; handles && i < *n; i++)
		handles[i] = knob("handles-null") ? 0 : &gpus[first + i];
	return SUCCESS;
}

/* A socket is its first processor. */
uint32_t amdsmi_get_socket_handles(uint32_t *n, void **handles)
{
	return give(n, handles, count, 0);
}

uint32_t amdsmi_get_processor_handles(void *socket, uint32_t *n, void **handles)
{
	return give(n, handles, 1, (int)((struct gpu *)socket - gpus));
}

uint32_t amdsmi_get_processor_type(void *handle, uint32_t *type)
{
	*type = 1;
	return handle ? SUCCESS : INVAL;
}

uint32_t amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf)
{
	*bdf = knob("bdf-garbage") ? 0xfffffffffffff800 : ((struct gpu *)handle)->bdf;
	return SUCCESS;
}

static uint64_t unique(struct gpu *g)
{
	char text[64];
	return read_file(g->dir, "unique_id", text, sizeof text) ? 0 : strtoull(text, 0, 16);
}

uint32_t amdsmi_get_gpu_device_uuid(void *handle, uint32_t *len, char *uuid)
{
	struct gpu *g = handle;
	if (*len < 38)
		return INVAL;
	snprintf(uuid, *len, "74ff74a1-0000-1000-80%02x-%012llx", (unsigned)(unique(g) >> 48 & 0xff),
		 (unsigned long long)(unique(g) & 0xffffffffffff));
	return SUCCESS;
}

uint32_t amdsmi_get_gpu_asic_info(void *handle, asic_t *a)
{
	struct gpu *g = handle;
	char text[64];
	memset(a, 0, sizeof *a);
	snprintf(a->market_name, sizeof a->market_name, "AMD Instinct MI300X");
	snprintf(a->vendor_name, sizeof a->vendor_name, "Advanced Micro Devices Inc. [AMD/ATI]");
	a->vendor_id = 0x1002;
	a->subvendor_id = 0x1022;
	if (!read_file(g->dir, "device", text, sizeof text))
		a->device_id = strtoull(text, 0, 16);
	a->rev_id = 7;
	snprintf(a->asic_serial, sizeof a->asic_serial, "0x%016llX", (unsigned long long)unique(g));
	a->oam_id = 3;
	if (knob("asic-garbage"))
		memset(a, 0xff, sizeof *a);
	return SUCCESS;
}

uint32_t amdsmi_get_gpu_driver_info(void *handle, driver_t *d)
{
	(void)handle;
	memset(d, 0, sizeof *d);
	strcpy(d->version, "6.10.5");
	strcpy(d->date, "2015/01/01 00:00");
	strcpy(d->name, "amdgpu");
	return SUCCESS;
}

static uint32_t get(void *handle, char *text, uint32_t len, const char *file, int memory)
{
	struct gpu *g = handle;
	if (!ready)
		return UNINITIALISED;
	if (g->partition)
		return UNSUPPORTED;
	if (len < 5)
		return SIZE;
	if (knob("mode-garbage")) {
		memset(text, 0xff, len);
		return SUCCESS;
	}
	if (knob("mode-lie") && !memory) {
		snprintf(text, len, "%s", knob("mode-lie"));
		return SUCCESS;
	}
	return status(read_file(g->dir, file, text, len), memory);
}

/* note appends to the log, if there is one, what was set. */
static void note(const struct gpu *g, const char *mode, uint32_t number)
{
	FILE *log = knob("log") ? fopen(knob("log"), "a") : 0;
	if (!log)
		return;
	fprintf(log, "%s %s %u\n", strrchr(g->dir, '/') + 1, mode, number);
	fclose(log);
}

static uint32_t set(void *handle, uint32_t number, const char *const *modes, const char *file, int memory)
{
	struct gpu *g = handle;
	char available[256];
	if (!ready)
		return UNINITIALISED;
	if (g->partition)
		return UNSUPPORTED;
	if (number > 8 || !modes[number])
		return INVAL;
	const char *mode = modes[number];
	if (!memory && !read_file(g->dir, "available_compute_partition", available, sizeof available) &&
	    !strstr(available, mode))
		return NOT_AVAILABLE;
	note(g, mode, number);
	while (knob("set-hang"))
		pause();
	if (knob("set-nothing"))
		return SUCCESS;
	if (knob("set-status"))
		return atoi(knob("set-status"));
	if (knob("set-wrong"))
		mode = knob("set-wrong");
	uint32_t result = status(write_file(g->dir, file, mode), memory);
	if (knob("set-abort"))
		abort();
	return result;
}

uint32_t amdsmi_get_gpu_compute_partition(void *handle, char *text, uint32_t len)
{
	return get(handle, text, len, "current_compute_partition", 0);
}

uint32_t amdsmi_get_gpu_memory_partition(void *handle, char *text, uint32_t len)
{
	return get(handle, text, len, "current_memory_partition", 1);
}

uint32_t amdsmi_set_gpu_compute_partition(void *handle, uint32_t number)
{
	return set(handle, number, compute_modes, "current_compute_partition", 0);
}

uint32_t amdsmi_set_gpu_memory_partition(void *handle, uint32_t number)
{
	uint32_t result = set(handle, number, memory_modes, "current_memory_partition", 1);
#if GEN < 2601
	/* ROCm 6 reloads the driver by itself, in the background. */
	FILE *pipe = popen("stdbuf -i0 -o0 -e0 modprobe -r amdgpu && modprobe amdgpu&", "r");
	char text[128];
	while (pipe && fgets(text, sizeof text, pipe))
		;
	if (pipe)
		pclose(pipe);
#endif
	return result;
}

#if GEN >= 2407
uint32_t amdsmi_get_gpu_kfd_info(void *handle, kfd_t *k)
{
	struct gpu *g = handle;
	memset(k, 0, sizeof *k);
	k->kfd_id = unique(g) + g->partition;
	k->node_id = g - gpus;
	k->partition_id = knob("partition-unknown") ? 0xFFFFFFFFu : (uint32_t)g->partition;
	return SUCCESS;
}
#endif

#if GEN >= 2601
uint32_t amdsmi_set_gpu_memory_partition_mode(void *handle, uint32_t number)
{
	return amdsmi_set_gpu_memory_partition(handle, number);
}
#endif
