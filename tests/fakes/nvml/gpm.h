/* GPM: what a device did between two samples that the caller takes, with the caller's choice of the interval.
 *
 * A metric that the driver does not know fails alone (its own status). Two samples less than 100 ms apart give wrong
 * numbers without an error, as on Hopper (NVIDIA in DCGM#310): the hardware's counters move each 100 ms, so such a pair
 * sees none or twice of what there was. */
#ifndef GAPTOP_GPM_H
#define GAPTOP_GPM_H

#include "calls.h"
#include "fields.h"

#define MAX_METRICS 477
#define REFRESH_S 0.1
typedef struct { const char *short_name, *long_name, *unit; } MetricInfo;
typedef struct { unsigned id; int status; double value; MetricInfo info; } Metric;
typedef struct { Device *device; double at, busy; } GpmSample;
typedef struct { unsigned version, metrics; GpmSample *first, *second; Metric metric[MAX_METRICS]; } MetricsGet;
typedef struct { unsigned version, supported; } GpmSupport;

EXPORT nvmlGpmQueryDeviceSupport(Device *d, GpmSupport *out) {
    ENTER(d, __func__);
    if (out->version != 1) return VERSION;
    return out->supported = (unsigned)d->gpm, OK;
}

EXPORT nvmlGpmSampleAlloc(GpmSample **out) {
    count(__func__);
    return *out = calloc(1, sizeof(GpmSample)), OK;
}

EXPORT nvmlGpmSampleFree(GpmSample *sample) {
    count(__func__);
    free(sample);
    return OK;
}

static int take(Device *d, GpmSample *sample) {
    if (!sample) return INVALID;
    if (!d->gpm) return NOT_SUPPORTED;
    pthread_mutex_lock(&play_lock);
    sample->device = d, sample->at = seconds_played(d);
    sample->busy = busy_until(d, sample->at);
    pthread_mutex_unlock(&play_lock);
    return OK;
}

EXPORT nvmlGpmSampleGet(Device *d, GpmSample *sample) { ENTER(d, __func__); return take(d, sample); }

/* The slice is known by its GPU and its GPU instance. */
EXPORT nvmlGpmMigSampleGet(Device *d, unsigned instance, GpmSample *sample) {
    ENTER(d, __func__);
    for (int i = 0; i < d->slices; i++) {
        if (!d->slice[i]->profile[0] || d->slice[i]->gpu_instance != instance) continue;
        int status = ruled(d->slice[i], __func__);
        return status ? status : take(d->slice[i], sample);
    }
    return INVALID;
}

static double mean_of(const MetricsGet *get) {
    const GpmSample *first = get->first, *second = get->second;
    double elapsed = second->at - first->at;
    if (elapsed >= REFRESH_S - 1e-9 || first->device->mirrored) return (second->busy - first->busy) / elapsed;
    double from = floor(first->at / REFRESH_S) * REFRESH_S, to = floor(second->at / REFRESH_S) * REFRESH_S;
    return elapsed > 0 ? (busy_until(first->device, to) - busy_until(first->device, from)) / elapsed : NAN;
}

static void measure(const MetricsGet *get, Metric *m) {
    const Device *d = get->second->device;
    double busy = mean_of(get) * 100, mib = 1024 * 1024, links = 0;
    char name[16];
    snprintf(name, sizeof name, "%u", m->id);
    const Rule *missing = rule_of(d, 'g', name);
    m->status = missing ? (missing->a ? (int)missing->a : NOT_SUPPORTED) : OK;
    m->value = 0, m->info = (MetricInfo){"fake", "fake", m->id < 20 ? "%" : "MiB/s"};
    if (missing) return;
    for (unsigned i = 0; i < MAX_LINKS; i++) links += link_is_up(d, i);
    if (m->id == 1) m->value = busy;
    else if (m->id == 2) m->value = busy * d->sm;
    else if (m->id == 3) m->value = busy * d->sm / 2;
    else if (m->id == 5 || m->id == 7) m->value = busy * d->tensor;
    else if (m->id == 10) m->value = busy * d->dram;
    else if (m->id == 4 || m->id == 12 || m->id == 13) m->value = busy * 0.1;
    else if (m->id >= 6 && m->id <= 11) m->value = 0;
    else if (m->id == 20 || m->id == 21) m->value = d->pcie_rate / mib;
    else if (m->id == 60 || m->id == 61) m->value = (m->id == 60 ? d->nvlink_rx : d->nvlink_tx) * links / mib;
    else if (m->id >= 62 && m->id <= 97)
        m->value = link_is_up(d, (m->id - 62) / 2) ? (m->id % 2 ? d->nvlink_tx : d->nvlink_rx) / mib : 0;
    else if (m->id == 248) m->value = get->second->at * 1.98e9;
    else if (m->id == 249) m->value = get->second->busy * d->sm * 1.98e9;
    else m->status = m->id && m->id < MAX_METRICS ? NOT_SUPPORTED : INVALID;
}

EXPORT nvmlGpmMetricsGet(MetricsGet *get) {
    if (!get || !get->first || !get->second) return count(__func__), INVALID;
    if (get->version != 1) return count(__func__), VERSION;
    Device *d = get->second->device;
    ENTER(d, __func__);
    if (get->first->device != d || get->metrics > MAX_METRICS || get->second->at < get->first->at) return INVALID;
    pthread_mutex_lock(&play_lock);
    for (unsigned i = 0; i < get->metrics; i++) measure(get, &get->metric[i]);
    pthread_mutex_unlock(&play_lock);
    return OK;
}

#endif
