/* What the stand-in plays: its devices, what they do, and the clocks that everything goes by. */
#ifndef GAPTOP_PLAY_H
#define GAPTOP_PLAY_H

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_DEVICES 16
#define MAX_SLICES 7
#define MAX_RULES 64
#define MAX_PIDS 64
#define MAX_THREADS 512
#define MIRROR_KEEP 256
#define MIRROR_TICK_NS 20000000LL
#define VISIBLE __attribute__((visibility("default")))
#define EXPORT VISIBLE int

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15, VERSION = 25 };

/* kind: u(nsupported) s(low) x(crash) f(ail) n(fail after calls) d(ry) c(ounter) e(vent: Xid) l(atency) g(pm_missing) k(nvlink down) */
typedef struct { char kind; char name[64]; double a, b, c; } Rule;
typedef struct { char path[96]; long long last_ns; int seen; } Watched;
typedef struct { double start, end, before; } Span; /* seconds of the play; before: busy seconds of all earlier spans */

typedef struct Device {
    int index;
    struct Device *parent, *slice[MAX_SLICES]; /* a MIG slice is a device with a parent */
    int slices; /* indexes, with holes: a slice without a profile is not there */
    unsigned gpu_instance, compute_instance;
    char uuid[96], name[96], profile[32];
    double window_ms, delay_ms, jitter_ms, memory_busy;
    int loop, ring, rotate, garbage, mig, wrap32, temperature, down, arch, major, minor, persistence, virtualization;
    unsigned long long memory_total, memory_used, reasons;
    /* What it does: windows of a series (with the sums of all earlier ones), spans of work, or a share of its parent. */
    int count, spans;
    double *busy, *power, *busy_sum, *power_sum;
    Span *span;
    double rates_ms, dry_idle, power_limit, repeat_s, share, idle_watts, busy_watts, power_update_ms, power_window_ms;
    int usage_average;
    double pcie_rate, nvlink_rx, nvlink_tx;
    int nvlink_links, nvlink_version;
    int gpm;
    double sm, tensor, dram;
    int rules, pids, mirrored;
    Rule rule[MAX_RULES];
    unsigned pid[MAX_PIDS];
    int mirror[MAX_PIDS];
    unsigned long calls;
    long long start_ns;
    /* mirror mode: window k is kept at k % MIRROR_KEEP once k < mirror_windows */
    float mirror_busy[MIRROR_KEEP];
    long long mirror_windows;
    double mirror_joules, mirror_seconds;
} Device;

static struct {
    int loaded, init_error, devices;
    double init_ms;
    char clock[16], driver[32];
    long long start_ns, offset_ns;
    Device *device[MAX_DEVICES];
} play;
static pthread_mutex_t play_lock = PTHREAD_MUTEX_INITIALIZER;

/* Virtual time: all clocks stand still until somebody sets them, and a call that takes time moves them on. */
static struct { int on; long long monotonic, realtime, boottime; } virtual_clock;
static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_moved = PTHREAD_COND_INITIALIZER; /* virtual time moved on, or an event was taken */

static long long real_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long clock_ns(clockid_t which) {
    if (!virtual_clock.on) return real_ns(which);
    long long *one = which == CLOCK_REALTIME ? &virtual_clock.realtime
                     : which == CLOCK_BOOTTIME ? &virtual_clock.boottime : &virtual_clock.monotonic;
    return __atomic_load_n(one, __ATOMIC_SEQ_CST);
}

/* A clock of the stand-in, by its clockid_t: in virtual time the caller's clocks are these, too. */
VISIBLE long long gaptop_fake_clock(int which) { return clock_ns((clockid_t)which); }

static void pass(double ms) {
    long long ns = (long long)(ms * 1e6);
    if (!virtual_clock.on) {
        struct timespec pause = {ns / 1000000000LL, ns % 1000000000LL};
        nanosleep(&pause, NULL);
        return;
    }
    __atomic_add_fetch(&virtual_clock.monotonic, ns, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&virtual_clock.realtime, ns, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&virtual_clock.boottime, ns, __ATOMIC_SEQ_CST);
}

static double seconds_played(const Device *d) { return (clock_ns(CLOCK_MONOTONIC) - d->start_ns) / 1e9; }

/* The driver's stamp (microseconds in the configured clock) of a moment in CLOCK_MONOTONIC nanoseconds. */
static unsigned long long stamp_us(long long monotonic_ns) {
    long long shift = play.offset_ns;
    if (!strcmp(play.clock, "epoch")) shift += clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    if (!strcmp(play.clock, "boot")) shift += clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
    return (unsigned long long)((monotonic_ns + shift) / 1000);
}

static const Rule *rule_of(const Device *d, char kind, const char *name) {
    for (int i = 0; i < d->rules; i++)
        if (d->rule[i].kind == kind && !strcmp(d->rule[i].name, name)) return &d->rule[i];
    return NULL;
}

#endif
