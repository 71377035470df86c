/* A stand-in for libnvidia-ml.so.1, for tests: the symbols that gaptop uses (and its neighbours), with the traps of the
 * real one. The unmodified binding (nvidia-ml-py) loads it. build.py compiles it and writes its configuration.
 * -DWITHOUT_<symbol> leaves a symbol out, as an old driver does. Layouts and codes: nvml.h of CUDA 13 (API version 13). */
#include "mirror.h"

#define EXPORT __attribute__((visibility("default"))) int
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10 };
typedef Device *Handle;
typedef union { double d; unsigned u; unsigned long long ull; long long sll; } Value;
typedef struct { unsigned long long stamp; Value value; } Sample;
typedef struct { unsigned id, scope; long long stamp, latency; unsigned type; int status; Value value; } Field;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

/* Every call on a device passes here: what its rules make of it. */
static int enter(Device *d, const char *name) {
    double now = seconds_played(d);
    long pause_ms = 0;
    int status = OK;
    pthread_mutex_lock(&play_lock);
    unsigned long call = ++d->calls;
    for (int i = 0; i < d->rules; i++) {
        Rule *r = &d->rule[i];
        if (r->kind == 'f' && now >= r->b && (r->c == 0 || now < r->c)) status = (int)r->a;
        if (r->kind == 'n' && call > r->b) status = (int)r->a;
        if (strcmp(r->name, name)) continue;
        if (r->kind == 'u') status = r->a ? (int)r->a : NOT_SUPPORTED;
        if (r->kind == 'x' && call > r->a) *(volatile int *)0 = 1;
        if (r->kind == 's' && call > r->b && r->c >= 0) {
            pause_ms = (long)r->a;
            if (r->c > 0 && --r->c == 0) r->c = -1; /* a count of calls to slow down; 0: all of them */
        }
    }
    pthread_mutex_unlock(&play_lock);
    if (pause_ms) usleep(pause_ms * 1000);
    return status;
}

#define ENTER(d, name) do { int status_ = enter(d, name); if (status_) return status_; } while (0)

#ifndef WITHOUT_nvmlInitWithFlags
EXPORT nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&play_lock);
    int first = !play.loaded;
    if (first) configure();
    pthread_mutex_unlock(&play_lock);
    if (play.init_error) return play.init_error;
    if (first) start_mirrors();
    return OK;
}
#endif
EXPORT nvmlShutdown(void) { return OK; }
__attribute__((visibility("default"))) const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

static int text(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size) return SMALL;
    strcpy(out, value);
    return OK;
}

EXPORT nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, play.driver); }
EXPORT nvmlSystemGetNVMLVersion(char *out, unsigned size) { return text(out, size, "13.595.45.04"); }
EXPORT nvmlSystemGetCudaDriverVersion_v2(int *out) { return *out = 13000, OK; }
EXPORT nvmlDeviceGetCount_v2(unsigned *out) { return *out = (unsigned)play.devices, OK; }

EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *out) {
    if (index >= (unsigned)play.devices) return INVALID;
    *out = &play.device[index];
    return enter(*out, "nvmlDeviceGetHandleByIndex_v2");
}

EXPORT nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out) {
    for (int i = 0; i < play.devices; i++)
        if (!strcmp(uuid, play.device[i].uuid)) {
            *out = &play.device[i];
            return enter(*out, "nvmlDeviceGetHandleByUUID");
        }
    return NOT_FOUND;
}

EXPORT nvmlDeviceGetName(Handle d, char *out, unsigned size) { ENTER(d, __func__); return text(out, size, d->name); }
EXPORT nvmlDeviceGetUUID(Handle d, char *out, unsigned size) { ENTER(d, __func__); return text(out, size, d->uuid); }
EXPORT nvmlDeviceGetIndex(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)(d - play.device), OK; }
EXPORT nvmlDeviceGetPciInfo_v3(Handle d, Pci *out) {
    ENTER(d, __func__);
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)(d - play.device) + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}
EXPORT nvmlDeviceGetArchitecture(Handle d, unsigned *out) { ENTER(d, __func__); return *out = 9, OK; }
EXPORT nvmlDeviceGetCudaComputeCapability(Handle d, int *major, int *minor) {
    ENTER(d, __func__);
    return *major = 9, *minor = 0, OK;
}
EXPORT nvmlDeviceGetMigMode(Handle d, unsigned *current, unsigned *pending) {
    ENTER(d, __func__);
    return *current = *pending = (unsigned)d->mig, OK;
}
EXPORT nvmlDeviceGetMaxMigDeviceCount(Handle d, unsigned *out) { ENTER(d, __func__); return *out = d->mig ? 7 : 0, OK; }
EXPORT nvmlDeviceGetMigDeviceHandleByIndex(Handle d, unsigned i, Handle *out) { (void)d, (void)i, (void)out; return NOT_FOUND; }
EXPORT nvmlDeviceGetPersistenceMode(Handle d, unsigned *out) { ENTER(d, __func__); return *out = 1, OK; }
EXPORT nvmlDeviceGetPerformanceState(Handle d, unsigned *out) { ENTER(d, __func__); return *out = 0, OK; }

static unsigned percent(double ratio) { return (unsigned)(ratio * 100 + 0.5); }

EXPORT nvmlDeviceGetUtilizationRates(Handle d, Rates *out) {
    ENTER(d, __func__);
    if (d->mig) return NOT_SUPPORTED;
    pthread_mutex_lock(&play_lock);
    long long k = windows_out(d) - 1;
    out->gpu = k < 0 ? 0 : percent(busy_of(d, k));
    out->memory = percent(out->gpu / 100.0 * d->memory_busy);
    pthread_mutex_unlock(&play_lock);
    return OK;
}

/* As the real one: NULL asks for the capacity, NOT_FOUND when nothing is newer, the order may be rotated, slots may be
 * garbage (stamp 0, more than 100 %), an entry may come twice. */
#ifndef WITHOUT_nvmlDeviceGetSamples
EXPORT nvmlDeviceGetSamples(Handle d, unsigned type, unsigned long long since, unsigned *value_type, unsigned *count, Sample *out) {
    ENTER(d, __func__);
    if (d->mig || (type != 1 && type != 2)) return NOT_SUPPORTED;
    unsigned capacity = (unsigned)d->ring + (d->garbage ? 3 : 0), n = 0;
    *value_type = 1;
    if (!out) return *count = capacity, OK;
    if (*count < capacity) return SMALL;
    pthread_mutex_lock(&play_lock);
    long long end = windows_out(d), first = end > d->ring ? end - d->ring : 0;
    for (long long k = first; k < end; k++) {
        unsigned long long stamp = stamp_us(d->start_ns + (k + 1) * window_ns(d) + (long long)(d->delay_ms * 1e6));
        if (stamp <= since || is_dry(d, k)) continue;
        out[n].stamp = stamp;
        out[n++].value.u = percent(busy_of(d, k) * (type == 2 ? d->memory_busy : 1));
    }
    pthread_mutex_unlock(&play_lock);
    if (!n) return NOT_FOUND;
    if (d->rotate && n > 1) {
        unsigned by = n / 2 ? n / 2 : 1;
        Sample copy[n];
        memcpy(copy, out, sizeof copy);
        for (unsigned i = 0; i < n; i++) out[i] = copy[(i + by) % n];
    }
    if (d->garbage) {
        out[n] = out[0], n++;
        out[n].stamp = 0, out[n++].value.u = 0;
        out[n].stamp = out[0].stamp + 7, out[n++].value.u = 37100;
    }
    *count = n;
    return OK;
}
#endif

EXPORT nvmlDeviceGetProcessUtilization(Handle d, void *out, unsigned *count, unsigned long long since) {
    (void)out, (void)since;
    ENTER(d, __func__);
    return *count = 0, NOT_FOUND;
}
EXPORT nvmlDeviceGetProcessesUtilizationInfo(Handle d, void *info) { (void)info; ENTER(d, __func__); return NOT_FOUND; }

static int processes(Device *d, const char *name, unsigned *count, Process *out, int shown) {
    ENTER(d, name);
    unsigned n = shown ? (unsigned)d->pids : 0;
    if (*count < n) return *count = n, SMALL;
    for (unsigned i = 0; i < n; i++) out[i] = (Process){d->pid[i], 1ULL << 30, 0xFFFFFFFF, 0xFFFFFFFF};
    return *count = n, OK;
}
EXPORT nvmlDeviceGetComputeRunningProcesses_v3(Handle d, unsigned *count, Process *out) { return processes(d, __func__, count, out, 1); }
EXPORT nvmlDeviceGetGraphicsRunningProcesses_v3(Handle d, unsigned *count, Process *out) { return processes(d, __func__, count, out, 0); }
EXPORT nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle d, unsigned *count, Process *out) { return processes(d, __func__, count, out, 0); }

EXPORT nvmlDeviceGetMemoryInfo(Handle d, Memory *out) {
    ENTER(d, __func__);
    *out = (Memory){d->memory_total, d->memory_total - d->memory_used, d->memory_used};
    return OK;
}
EXPORT nvmlDeviceGetMemoryInfo_v2(Handle d, MemoryV2 *out) {
    ENTER(d, __func__);
    if (out->version != 0x02000028) return INVALID;
    *out = (MemoryV2){out->version, d->memory_total, 1 << 20, d->memory_total - d->memory_used, d->memory_used};
    return OK;
}

static int idle_now(Device *d) {
    long long k = windows_out(d) - 1;
    return k < 0 || busy_of(d, k) == 0;
}
EXPORT nvmlDeviceGetClockInfo(Handle d, unsigned type, unsigned *out) {
    ENTER(d, __func__);
    return *out = type == 2 ? 2619 : idle_now(d) ? 345 : 1980, OK;
}
EXPORT nvmlDeviceGetMaxClockInfo(Handle d, unsigned type, unsigned *out) { ENTER(d, __func__); return *out = type == 2 ? 2619 : 1980, OK; }
#ifndef WITHOUT_nvmlDeviceGetCurrentClocksEventReasons
EXPORT nvmlDeviceGetCurrentClocksEventReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = d->reasons | (unsigned)idle_now(d), OK; }
#endif
EXPORT nvmlDeviceGetCurrentClocksThrottleReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = d->reasons | (unsigned)idle_now(d), OK; }
EXPORT nvmlDeviceGetSupportedClocksEventReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = 0x1FF, OK; }

static double watts(Device *d) {
    long long k = windows_out(d) - 1;
    return power_of(d, k < 0 ? 0 : k);
}
EXPORT nvmlDeviceGetPowerUsage(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)(watts(d) * 1000), OK; }
EXPORT nvmlDeviceGetEnforcedPowerLimit(Handle d, unsigned *out) { ENTER(d, __func__); return *out = 700000, OK; }
static unsigned long long millijoules(Device *d) {
    double sum = d->mirror_joules;
    for (long long k = 0, end = d->mirrored ? 0 : windows_out(d); k < end; k++) sum += power_of(d, k) * d->window_ms / 1e3;
    return (unsigned long long)(sum * 1000);
}
EXPORT nvmlDeviceGetTotalEnergyConsumption(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = millijoules(d), OK; }
EXPORT nvmlDeviceGetTemperature(Handle d, unsigned sensor, unsigned *out) { (void)sensor; ENTER(d, __func__); return *out = (unsigned)d->temperature, OK; }
EXPORT nvmlDeviceGetPcieThroughput(Handle d, unsigned counter, unsigned *out) { (void)counter; ENTER(d, __func__); usleep(20000); return *out = (unsigned)(d->pcie_rate / 1024), OK; }

static void answer(Device *d, Field *f) {
    char name[64];
    double played = seconds_played(d);
    snprintf(name, sizeof name, "field:%u", f->id);
    f->stamp = clock_ns(CLOCK_REALTIME) / 1000, f->latency = 20, f->status = OK, f->type = 3;
    for (int i = 0; i < d->rules; i++)
        if (d->rule[i].kind == 'u' && !strcmp(d->rule[i].name, name)) { f->status = NOT_SUPPORTED; return; }
    if (f->id == 185 || f->id == 186) f->type = 1, f->value.u = (unsigned)(watts(d) * 1000);
    else if (f->id == 83 || f->id == 191) f->value.ull = millijoules(d);
    else if (f->id == 197 || f->id == 198) {
        unsigned long long bytes = (unsigned long long)(played * d->pcie_rate) + (d->wrap32 ? 0xFFFFFFFFULL - (unsigned long long)d->pcie_rate : 0);
        if (d->wrap32) f->type = 1, f->value.u = (unsigned)bytes;
        else f->value.ull = bytes;
    } else if ((f->id >= 74 && f->id <= 79) || (f->id >= 269 && f->id <= 271)) {
        f->value.ull = 0;
        snprintf(name, sizeof name, "%u", f->id);
        for (int i = 0; i < d->rules; i++)
            if (d->rule[i].kind == 'c' && !strcmp(d->rule[i].name, name)) f->value.ull = (unsigned long long)(played * d->rule[i].a * 1e9);
    } else f->status = f->id > 300 ? INVALID : NOT_SUPPORTED;
}
#ifndef WITHOUT_nvmlDeviceGetFieldValues
EXPORT nvmlDeviceGetFieldValues(Handle d, int count, Field *fields) {
    ENTER(d, __func__);
    pthread_mutex_lock(&play_lock);
    for (int i = 0; i < count; i++) answer(d, &fields[i]);
    pthread_mutex_unlock(&play_lock);
    return OK;
}
#endif

EXPORT nvmlGpmQueryDeviceSupport(Handle d, unsigned *versioned) { ENTER(d, __func__); return versioned[1] = 0, OK; }
EXPORT nvmlGpmSampleAlloc(void **out) { (void)out; return NOT_SUPPORTED; }
EXPORT nvmlGpmSampleFree(void *sample) { (void)sample; return OK; }
EXPORT nvmlGpmSampleGet(Handle d, void *sample) { (void)sample; ENTER(d, __func__); return NOT_SUPPORTED; }
EXPORT nvmlGpmMigSampleGet(Handle d, unsigned instance, void *sample) { (void)instance, (void)sample; ENTER(d, __func__); return NOT_SUPPORTED; }
EXPORT nvmlGpmMetricsGet(void *metrics) { (void)metrics; return NOT_SUPPORTED; }
EXPORT nvmlEventSetCreate(void **out) { return *out = &play, OK; }
EXPORT nvmlEventSetFree(void *set) { (void)set; return OK; }
EXPORT nvmlDeviceRegisterEvents(Handle d, unsigned long long types, void *set) { (void)types, (void)set; ENTER(d, __func__); return OK; }
EXPORT nvmlEventSetWait_v2(void *set, void *data, unsigned timeout_ms) { (void)set, (void)data; usleep(timeout_ms * 1000); return TIMEOUT; }
