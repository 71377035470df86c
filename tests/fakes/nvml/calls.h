/* Each call passes here: it is counted, and has what the rules of its device make of it.
 *
 * The counts go to the file that GAPTOP_FAKE_NVML_CALLS names, as JSON: {"nvmlDeviceGetName": 3, ...}; each second of
 * real time and at the end of the process. */
#ifndef GAPTOP_CALLS_H
#define GAPTOP_CALLS_H

#include "play.h"

#define MAX_NAMES 128
static struct { const char *name; unsigned long calls; } counted[MAX_NAMES];
static int names;
static long long written_ns;

static void write_counts(void) {
    const char *path = getenv("GAPTOP_FAKE_NVML_CALLS");
    char partial[512];
    if (!path) return;
    snprintf(partial, sizeof partial, "%.480s.%d", path, (int)getpid());
    FILE *file = fopen(partial, "w");
    if (!file) return;
    for (int i = 0; i < names; i++) fprintf(file, "%s\"%s\": %lu", i ? ", " : "{", counted[i].name, counted[i].calls);
    fputs(names ? "}\n" : "{}\n", file);
    fclose(file);
    rename(partial, path);
}

__attribute__((destructor)) static void write_last_counts(void) { write_counts(); }

/* To be called with play_lock held. */
static void count_locked(const char *name) {
    int i = 0;
    while (i < names && counted[i].name != name && strcmp(counted[i].name, name)) i++;
    if (i == MAX_NAMES) return;
    if (i == names) counted[names++].name = name;
    counted[i].calls++;
    long long now = real_ns(CLOCK_MONOTONIC);
    if (now - written_ns < 1000000000LL) return;
    written_ns = now;
    write_counts();
}

static void count(const char *name) {
    pthread_mutex_lock(&play_lock);
    count_locked(name);
    pthread_mutex_unlock(&play_lock);
}

/* What of a MIG slice can be asked; everything else is its GPU's. */
static int of_slices(const char *name) {
    static const char *const known[] = {"Name", "UUID", "Index", "MemoryInfo", "RunningProcesses", "Instance",
                                        "MigDeviceHandle", "Gpm", "Handle", "Attributes"};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(name, known[i])) return 1;
    return 0;
}

/* What a device's rules make of a call. */
static int ruled(Device *d, const char *name) {
    double now = seconds_played(d), pause_ms = 0;
    int status = OK;
    pthread_mutex_lock(&play_lock);
    if (d->parent && !of_slices(name)) status = NOT_SUPPORTED;
    unsigned long call = ++d->calls;
    for (int i = 0; i < d->rules; i++) {
        Rule *r = &d->rule[i];
        if (r->kind == 'f' && now >= r->b && (r->c == 0 || now < r->c)) status = (int)r->a;
        if (r->kind == 'n' && call > r->b) status = (int)r->a;
        if (strcmp(r->name, name)) continue;
        if (r->kind == 'u') status = r->a ? (int)r->a : NOT_SUPPORTED;
        if (r->kind == 'x' && call > r->a) *(volatile int *)0 = 1;
        if (r->kind == 's' && call > r->b && r->c >= 0) {
            pause_ms = r->a;
            if (r->c > 0 && --r->c == 0) r->c = -1; /* a count of calls to slow down; 0: all of them */
        }
    }
    for (int i = 0; d->parent && i < d->parent->rules; i++) {
        Rule *r = &d->parent->rule[i]; /* a slice is lost with its GPU */
        if (r->kind == 'f' && now >= r->b && (r->c == 0 || now < r->c)) status = (int)r->a;
    }
    pthread_mutex_unlock(&play_lock);
    if (pause_ms) pass(pause_ms);
    return status;
}

static int enter(Device *d, const char *name) {
    count(name);
    return d ? ruled(d, name) : INVALID;
}

#define ENTER(d, name) do { int status_ = enter(d, name); if (status_) return status_; } while (0)

#endif
