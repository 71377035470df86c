/* Xid events. A set gets each event of its devices once, from when they were registered; a wait returns with the oldest
 * one, or TIMEOUT. Waiting for a GPU that has fallen off the bus fails with GPU_IS_LOST at once, each time (nvml.h; so
 * does a real driver after Xid 79, NVIDIA/k8s-test-infra#746).
 *
 * What a blocked wait does when its set is freed or the session shut down is documented nowhere, so nothing is promised
 * here either: it goes on until its timeout (memory of a set is never given back). */
#ifndef GAPTOP_EVENTS_H
#define GAPTOP_EVENTS_H

#include "calls.h"

#define XID 8ULL
typedef struct { Device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } EventData;
typedef struct { int freed, devices; Device *device[MAX_DEVICES]; double since[MAX_DEVICES]; unsigned long long told[MAX_DEVICES]; } EventSet;
static EventSet *waited[17]; /* one for each thread inside a wait, of 16 at most */

EXPORT nvmlEventSetCreate(EventSet **out) { count(__func__); return *out = calloc(1, sizeof(EventSet)), OK; }

EXPORT nvmlEventSetFree(EventSet *set) {
    count(__func__);
    if (!set || set->freed) return INVALID;
    return set->freed = 1, OK;
}

EXPORT nvmlDeviceGetSupportedEventTypes(Device *d, unsigned long long *out) {
    ENTER(d, __func__);
    return *out = XID, OK;
}

EXPORT nvmlDeviceRegisterEvents(Device *d, unsigned long long types, EventSet *set) {
    ENTER(d, __func__);
    if (!set || set->freed || set->devices == MAX_DEVICES) return INVALID;
    if (types & ~XID) return NOT_SUPPORTED;
    pthread_mutex_lock(&event_lock);
    set->device[set->devices] = d, set->since[set->devices++] = seconds_played(d);
    pthread_mutex_unlock(&event_lock);
    return OK;
}

static int is_lost(const Device *d) {
    double now = seconds_played(d);
    for (int i = 0; i < d->rules; i++) {
        const Rule *r = &d->rule[i];
        if (r->kind == 'f' && r->a == LOST && now >= r->b && (r->c == 0 || now < r->c)) return 1;
        if (r->kind == 'n' && r->a == LOST && d->calls > r->b) return 1;
    }
    return 0;
}

/* The oldest event that is due and untold; OK, LOST, or NOT_FOUND. `data` NULL: only look. */
static int next_event(EventSet *set, EventData *data) {
    int device = -1, rule = -1;
    for (int i = 0; i < set->devices; i++) {
        Device *d = set->device[i];
        double now = seconds_played(d);
        for (int j = 0; j < d->rules; j++) {
            Rule *r = &d->rule[j];
            if (r->kind != 'e' || r->b <= set->since[i] || now < r->b || set->told[i] >> j & 1) continue;
            if (device < 0 || r->b < set->device[device]->rule[rule].b) device = i, rule = j;
        }
    }
    if (device >= 0) {
        Rule *r = &set->device[device]->rule[rule];
        if (!data) return OK;
        set->told[device] |= 1ULL << rule;
        unsigned instance = r->c ? (unsigned)r->c : 0xFFFFFFFF;
        *data = (EventData){set->device[device], XID, (unsigned long long)r->a, instance, r->c ? 0 : 0xFFFFFFFF};
        return OK;
    }
    for (int i = 0; i < set->devices; i++)
        if (is_lost(set->device[i])) return LOST;
    return NOT_FOUND;
}

static struct timespec in_ns(long long ns) {
    long long at = real_ns(CLOCK_REALTIME) + ns;
    return (struct timespec){at / 1000000000LL, at % 1000000000LL};
}

/* The timeout is real time even where all else is virtual: a waiting thread must come back when virtual time stands. */
EXPORT nvmlEventSetWait_v2(EventSet *set, EventData *data, unsigned timeout_ms) {
    count(__func__);
    if (!set || set->freed || !data) return INVALID;
    long long end = real_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000LL;
    int status, slot = 0;
    pthread_mutex_lock(&event_lock);
    while (waited[slot]) slot++;
    if (slot == 16) abort();
    waited[slot] = set;
    while ((status = next_event(set, data)) == NOT_FOUND) {
        long long left = end - real_ns(CLOCK_MONOTONIC);
        if (left <= 0) break;
        struct timespec until = in_ns(left < 5000000 || virtual_clock.on ? left : 5000000);
        pthread_cond_timedwait(&event_moved, &event_lock, &until);
    }
    waited[slot] = NULL;
    pthread_cond_broadcast(&event_moved);
    pthread_mutex_unlock(&event_lock);
    return status == NOT_FOUND ? TIMEOUT : status;
}

static int an_event_is_awaited(void) {
    for (int i = 0; i < 16; i++)
        if (waited[i] && next_event(waited[i], NULL) == OK) return 1;
    return 0;
}

/* Threads that are inside a wait now. */
VISIBLE int gaptop_fake_waiting(void) {
    int threads = 0;
    pthread_mutex_lock(&event_lock);
    for (int i = 0; i < 16; i++) threads += waited[i] != NULL;
    pthread_mutex_unlock(&event_lock);
    return threads;
}

/* Set all clocks. Threads that wait for an event which this makes due have it before the caller goes on. */
VISIBLE void gaptop_fake_set_clock(long long monotonic_ns, long long realtime_ns, long long boottime_ns) {
    pthread_mutex_lock(&event_lock);
    virtual_clock.on = 1;
    __atomic_store_n(&virtual_clock.monotonic, monotonic_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&virtual_clock.realtime, realtime_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&virtual_clock.boottime, boottime_ns, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&event_moved);
    while (an_event_is_awaited()) pthread_cond_wait(&event_moved, &event_lock);
    pthread_mutex_unlock(&event_lock);
}

#endif
