/* What the stand-in plays: its configuration (text in GAPTOP_FAKE_NVML, see build.py), and the windows of each device. */
#ifndef GAPTOP_PLAY_H
#define GAPTOP_PLAY_H

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_DEVICES 8
#define MAX_WINDOWS 4096
#define MAX_RULES 32
#define MAX_PIDS 64
#define MAX_THREADS 512
#define MIRROR_KEEP 256
#define MIRROR_TICK_NS 20000000LL

typedef struct { char kind; char name[64]; double a, b, c; } Rule; /* kind: u(nsupported) s(low) x(crash) f(ail) n(fail after calls) d(ry) c(ounter) */
typedef struct { char path[96]; long long last_ns; int seen; } Watched;

typedef struct {
    char uuid[96], name[96];
    double window_ms, delay_ms, memory_busy;
    int loop, count, ring, rotate, garbage, mig, wrap32, temperature, memory_v2;
    float busy[MAX_WINDOWS], power[MAX_WINDOWS];
    unsigned long long memory_total, memory_used, reasons;
    double pcie_rate;
    int rules, pids, mirrored;
    Rule rule[MAX_RULES];
    unsigned pid[MAX_PIDS];
    int mirror[MAX_PIDS];
    unsigned long calls;
    long long start_ns;
    /* mirror mode: window k is kept at k % MIRROR_KEEP once k < mirror_windows */
    float mirror_busy[MIRROR_KEEP];
    long long mirror_windows;
    double mirror_joules;
} Device;

static struct {
    int loaded, init_error, devices;
    char clock[16], driver[32];
    long long start_ns, offset_ns;
    Device device[MAX_DEVICES];
} play;
static pthread_mutex_t play_lock = PTHREAD_MUTEX_INITIALIZER;

static long long clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long window_ns(const Device *d) { return (long long)(d->window_ms * 1e6); }

static void defaults(Device *d, int index) {
    memset(d, 0, sizeof *d);
    snprintf(d->uuid, sizeof d->uuid, "GPU-fake-%d", index);
    snprintf(d->name, sizeof d->name, "NVIDIA Fake GPU");
    d->window_ms = 200, d->delay_ms = 10, d->memory_busy = 0.5, d->ring = 72, d->temperature = 40, d->memory_v2 = 1;
    d->memory_total = 80ULL << 30, d->memory_used = 20ULL << 30, d->pcie_rate = 1e6, d->reasons = 0;
    d->count = 1, d->busy[0] = 0, d->power[0] = 60;
}

static void add_rule(Device *d, char kind, const char *rest) {
    if (d->rules >= MAX_RULES) return;
    Rule *r = &d->rule[d->rules++];
    r->kind = kind;
    if (kind == 'u' || kind == 's' || kind == 'x' || kind == 'c')
        sscanf(rest, "%63s %lf %lf %lf", r->name, &r->a, &r->b, &r->c);
    else
        sscanf(rest, "%lf %lf %lf", &r->a, &r->b, &r->c);
}

static void configure_device(Device *d, const char *key, const char *rest) {
    if (!strcmp(key, "uuid")) snprintf(d->uuid, sizeof d->uuid, "%s", rest);
    else if (!strcmp(key, "name")) snprintf(d->name, sizeof d->name, "%s", rest);
    else if (!strcmp(key, "window_ms")) d->window_ms = atof(rest);
    else if (!strcmp(key, "delay_ms")) d->delay_ms = atof(rest);
    else if (!strcmp(key, "memory_busy")) d->memory_busy = atof(rest);
    else if (!strcmp(key, "loop")) d->loop = atoi(rest);
    else if (!strcmp(key, "ring")) d->ring = atoi(rest);
    else if (!strcmp(key, "rotate")) d->rotate = atoi(rest);
    else if (!strcmp(key, "garbage")) d->garbage = atoi(rest);
    else if (!strcmp(key, "mig")) d->mig = atoi(rest);
    else if (!strcmp(key, "wrap32")) d->wrap32 = atoi(rest);
    else if (!strcmp(key, "temperature")) d->temperature = atoi(rest);
    else if (!strcmp(key, "memory_v2")) d->memory_v2 = atoi(rest);
    else if (!strcmp(key, "memory_total")) d->memory_total = strtoull(rest, NULL, 10);
    else if (!strcmp(key, "memory_used")) d->memory_used = strtoull(rest, NULL, 10);
    else if (!strcmp(key, "reasons")) d->reasons = strtoull(rest, NULL, 0);
    else if (!strcmp(key, "pcie_rate")) d->pcie_rate = atof(rest);
    else if (!strcmp(key, "unsupported")) add_rule(d, 'u', rest);
    else if (!strcmp(key, "slow")) add_rule(d, 's', rest);
    else if (!strcmp(key, "crash")) add_rule(d, 'x', rest);
    else if (!strcmp(key, "counter")) add_rule(d, 'c', rest);
    else if (!strcmp(key, "fail")) add_rule(d, 'f', rest);
    else if (!strcmp(key, "fail_after_calls")) add_rule(d, 'n', rest);
    else if (!strcmp(key, "dry")) add_rule(d, 'd', rest);
    else if (!strcmp(key, "series")) {
        d->count = 0;
        for (const char *p = rest; *p && d->count < MAX_WINDOWS;) {
            int used = 0;
            if (sscanf(p, "%f:%f %n", &d->busy[d->count], &d->power[d->count], &used) < 2) break;
            d->count++, p += used;
        }
    } else if (!strcmp(key, "pids") || !strcmp(key, "mirror")) {
        int mirror = key[0] == 'm';
        for (char *p = (char *)rest, *end;; p = end) {
            long pid = strtol(p, &end, 10);
            if (end == p) break;
            if (mirror && d->mirrored < MAX_PIDS) d->mirror[d->mirrored++] = (int)pid;
            if (!mirror && d->pids < MAX_PIDS) d->pid[d->pids++] = (unsigned)pid;
        }
    } else fprintf(stderr, "fake nvml: unknown key %s\n", key), abort();
}

static void configure(void) {
    const char *text = getenv("GAPTOP_FAKE_NVML");
    char *copy = strdup(text ? text : "device 0\n"), *save = NULL;
    Device *d = NULL;
    strcpy(play.clock, "epoch"), strcpy(play.driver, "595.45.04");
    play.start_ns = clock_ns(CLOCK_MONOTONIC);
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char key[64];
        int used = 0;
        if (sscanf(line, "%63s %n", key, &used) < 1) continue;
        const char *rest = line + used;
        if (!strcmp(key, "device")) {
            if (play.devices == MAX_DEVICES) abort();
            d = &play.device[play.devices];
            defaults(d, play.devices++);
        } else if (d) configure_device(d, key, rest);
        else if (!strcmp(key, "clock")) snprintf(play.clock, sizeof play.clock, "%s", rest);
        else if (!strcmp(key, "driver")) snprintf(play.driver, sizeof play.driver, "%s", rest);
        else if (!strcmp(key, "init_error")) play.init_error = atoi(rest);
        else if (!strcmp(key, "start_ns")) play.start_ns = atoll(rest);
        else if (!strcmp(key, "offset_ns")) play.offset_ns = atoll(rest);
        else fprintf(stderr, "fake nvml: unknown key %s\n", key), abort();
    }
    free(copy);
    for (int i = 0; i < play.devices; i++) play.device[i].start_ns = play.start_ns;
    play.loaded = 1;
}

/* The driver's stamp (microseconds in the configured clock) of a moment in CLOCK_MONOTONIC nanoseconds. */
static unsigned long long stamp_us(long long monotonic_ns) {
    long long shift = play.offset_ns;
    if (!strcmp(play.clock, "epoch")) shift += clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    if (!strcmp(play.clock, "boot")) shift += clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
    return (unsigned long long)((monotonic_ns + shift) / 1000);
}

static double seconds_played(const Device *d) { return (clock_ns(CLOCK_MONOTONIC) - d->start_ns) / 1e9; }

/* Number of windows whose reading is out by now. */
static long long windows_out(const Device *d) {
    long long since = clock_ns(CLOCK_MONOTONIC) - d->start_ns - (long long)(d->delay_ms * 1e6);
    long long out = since < 0 ? 0 : since / window_ns(d);
    return d->mirrored && d->mirror_windows < out ? d->mirror_windows : out;
}

static int at(const Device *d, long long k) {
    return d->loop ? (int)(k % d->count) : (int)(k < d->count ? k : d->count - 1);
}

static double busy_of(const Device *d, long long k) {
    return d->mirrored ? d->mirror_busy[k % MIRROR_KEEP] : d->busy[at(d, k)];
}

static double power_of(const Device *d, long long k) {
    return d->mirrored ? 60 + 240 * busy_of(d, k) : d->power[at(d, k)];
}

static int is_dry(const Device *d, long long k) {
    double end = (k + 1) * d->window_ms / 1e3;
    for (int i = 0; i < d->rules; i++)
        if (d->rule[i].kind == 'd' && end >= d->rule[i].a && end < d->rule[i].b) return 1;
    return 0;
}

#endif
