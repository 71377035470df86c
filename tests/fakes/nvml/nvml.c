/* A stand-in for libnvidia-ml.so.1, for tests: the symbols that gaptop uses (and its neighbours), with the traps of the
 * real one. The unmodified binding (nvidia-ml-py) loads it. build.py compiles it and writes its configuration.
 * -D<symbol>=left_out_<symbol> leaves a symbol out, as an old driver does. Layouts and codes: nvml.h of CUDA 13 (API version 13). */
#include "config.h"
#include "events.h"
#include "fields.h"
#include "gpm.h"
#include "mig.h"
#include "mirror.h"

typedef Device *Handle;
typedef struct { unsigned long long stamp; Value value; } Sample;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

EXPORT nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&play_lock);
    int first = !play.loaded;
    if (first) configure();
    pthread_mutex_unlock(&play_lock);
    count(__func__);
    if (play.init_ms) pass(play.init_ms); /* without persistence mode each first session makes the GPU ready */
    if (play.init_error) return play.init_error;
    if (first) start_mirrors();
    return OK;
}
EXPORT nvmlShutdown(void) { count(__func__); return OK; }
VISIBLE const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

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
    *out = play.device[index];
    return enter(*out, "nvmlDeviceGetHandleByIndex_v2");
}

EXPORT nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out) {
    *out = NULL;
    for (int i = 0; i < play.devices; i++) {
        Device *gpu = play.device[i];
        if (!strcmp(uuid, gpu->uuid)) *out = gpu;
        for (int j = 0; j < gpu->slices; j++)
            if (gpu->slice[j]->profile[0] && !strcmp(uuid, gpu->slice[j]->uuid)) *out = gpu->slice[j];
    }
    return *out ? enter(*out, __func__) : NOT_FOUND;
}

EXPORT nvmlDeviceGetName(Handle d, char *out, unsigned size) { ENTER(d, __func__); return text(out, size, d->name); }
EXPORT nvmlDeviceGetUUID(Handle d, char *out, unsigned size) { ENTER(d, __func__); return text(out, size, d->uuid); }
EXPORT nvmlDeviceGetIndex(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)d->index, OK; }
EXPORT nvmlDeviceGetPciInfo_v3(Handle d, Pci *out) {
    ENTER(d, __func__);
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)d->index + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}
EXPORT nvmlDeviceGetArchitecture(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)d->arch, OK; }
EXPORT nvmlDeviceGetCudaComputeCapability(Handle d, int *major, int *minor) {
    ENTER(d, __func__);
    return *major = d->major, *minor = d->minor, OK;
}
EXPORT nvmlDeviceGetPersistenceMode(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)d->persistence, OK; }
EXPORT nvmlDeviceGetPerformanceState(Handle d, unsigned *out) { ENTER(d, __func__); return *out = 0, OK; }
EXPORT nvmlDeviceGetVirtualizationMode(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)d->virtualization, OK; }

EXPORT nvmlDeviceGetUtilizationRates(Handle d, Rates *out) {
    ENTER(d, __func__);
    if (d->mig) return NOT_SUPPORTED;
    pthread_mutex_lock(&play_lock);
    long long k = rates_window(d);
    out->gpu = k < 0 ? 0 : percent(d, busy_of(d, k));
    out->memory = percent(d, out->gpu / 100.0 * d->memory_busy);
    pthread_mutex_unlock(&play_lock);
    return OK;
}

/* As the real one: NULL asks for the capacity, NOT_FOUND when nothing is newer, the order may be rotated, slots may be
 * garbage (stamp 0, more than 100 %), an entry may come twice. */
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
        unsigned long long stamp = stamp_us(d->start_ns + edge_ns(d, k + 1) + (long long)(d->delay_ms * 1e6));
        if (stamp <= since || is_dry(d, k)) continue;
        out[n].stamp = stamp;
        out[n++].value.u = percent(d, busy_of(d, k) * (type == 2 ? d->memory_busy : 1));
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

EXPORT nvmlDeviceGetProcessUtilization(Handle d, void *out, unsigned *count, unsigned long long since) {
    (void)out, (void)since;
    ENTER(d, __func__);
    return *count = 0, NOT_FOUND;
}
EXPORT nvmlDeviceGetProcessesUtilizationInfo(Handle d, void *info) { (void)info; ENTER(d, __func__); return NOT_FOUND; }

/* A GPU's list has its slices' processes, too, with the instances that they run in. */
static int processes(Device *d, const char *name, unsigned *count, Process *out, int shown) {
    ENTER(d, name);
    unsigned n = shown ? (unsigned)d->pids : 0, at = 0;
    for (int i = 0; shown && i < d->slices; i++) n += (unsigned)d->slice[i]->pids;
    if (*count < n) return *count = n, SMALL;
    for (int i = -1; shown && i < d->slices; i++) {
        const Device *one = i < 0 ? d : d->slice[i];
        for (int j = 0; j < one->pids; j++)
            out[at++] = (Process){one->pid[j], 1ULL << 30, one->gpu_instance, one->compute_instance};
    }
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

EXPORT nvmlDeviceGetClockInfo(Handle d, unsigned type, unsigned *out) {
    ENTER(d, __func__);
    return *out = type == 2 ? 2619 : idle_now(d) ? 345 : 1980, OK;
}
EXPORT nvmlDeviceGetMaxClockInfo(Handle d, unsigned type, unsigned *out) { ENTER(d, __func__); return *out = type == 2 ? 2619 : 1980, OK; }
EXPORT nvmlDeviceGetCurrentClocksEventReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = d->reasons | (unsigned)idle_now(d), OK; }
EXPORT nvmlDeviceGetCurrentClocksThrottleReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = d->reasons | (unsigned)idle_now(d), OK; }
EXPORT nvmlDeviceGetSupportedClocksEventReasons(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = 0x1FF, OK; }

EXPORT nvmlDeviceGetPowerUsage(Handle d, unsigned *out) {
    ENTER(d, __func__);
    return *out = (unsigned)lround((d->usage_average ? watts_of_second(d) : watts(d)) * 1000), OK;
}
EXPORT nvmlDeviceGetEnforcedPowerLimit(Handle d, unsigned *out) { ENTER(d, __func__); return *out = (unsigned)(d->power_limit * 1000), OK; }
EXPORT nvmlDeviceGetTotalEnergyConsumption(Handle d, unsigned long long *out) { ENTER(d, __func__); return *out = millijoules(d), OK; }
EXPORT nvmlDeviceGetTemperature(Handle d, unsigned sensor, unsigned *out) { (void)sensor; ENTER(d, __func__); return *out = (unsigned)d->temperature, OK; }
