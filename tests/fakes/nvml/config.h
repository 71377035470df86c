/* The configuration: text in GAPTOP_FAKE_NVML, or in the file that it names after an @ (see build.py). */
#ifndef GAPTOP_CONFIG_H
#define GAPTOP_CONFIG_H

#include "windows.h"

static Device *new_device(int index, Device *parent) {
    Device *d = calloc(1, sizeof *d);
    d->index = index, d->parent = parent;
    d->window_ms = 200, d->delay_ms = 10, d->memory_busy = 0.5, d->ring = 72, d->temperature = 40, d->persistence = 1;
    d->arch = 9, d->major = 9, d->sm = 0.8, d->tensor = 0.3, d->dram = 0.5, d->share = -1;
    d->memory_total = 80ULL << 30, d->memory_used = 20ULL << 30, d->pcie_rate = 1e6, d->nvlink_version = 4;
    d->idle_watts = 60, d->busy_watts = -1, d->power_limit = 700, d->dry_idle = -1;
    d->count = 1, d->busy = calloc(1, sizeof(double)), d->power = malloc(sizeof(double)), d->power[0] = 60;
    d->gpu_instance = d->compute_instance = 0xFFFFFFFF;
    snprintf(d->uuid, sizeof d->uuid, "GPU-fake-%d", index);
    snprintf(d->name, sizeof d->name, "NVIDIA Fake GPU");
    if (!parent) return d;
    snprintf(d->uuid, sizeof d->uuid, "MIG-fake-%d-%d", parent->index, index);
    snprintf(d->profile, sizeof d->profile, "1g.10gb");
    d->name[0] = 0; /* its parent's and the profile's, once all is read */
    d->window_ms = parent->window_ms, d->delay_ms = parent->delay_ms, d->gpm = parent->gpm;
    d->memory_total = 10ULL << 30, d->memory_used = 2ULL << 30;
    d->gpu_instance = (unsigned)index + 1, d->compute_instance = 0;
    return d;
}

static void add_rule(Device *d, char kind, const char *rest) {
    if (d->rules >= MAX_RULES) fprintf(stderr, "fake nvml: more than %d rules\n", MAX_RULES), abort();
    Rule *r = &d->rule[d->rules++];
    r->kind = kind;
    if (strchr("usxclgk", kind)) sscanf(rest, "%63s %lf %lf %lf", r->name, &r->a, &r->b, &r->c);
    else sscanf(rest, "%lf %lf %lf", &r->a, &r->b, &r->c);
}

/* Pairs "a:b a:b ..."; gives their number and two columns of that length. */
static int pairs(const char *text, double **first, double **second) {
    int room = 1, n = 0;
    for (const char *p = text; *p; p++) room += *p == ':';
    *first = calloc(room, sizeof(double)), *second = calloc(room, sizeof(double));
    for (char *p = (char *)text, *end; *p; p = end) {
        (*first)[n] = strtod(p, &end);
        if (end == p || *end != ':') break;
        (*second)[n++] = strtod(end + 1, &end);
    }
    return n;
}

static double *sums(const double *value, int count) {
    double *sum = calloc(count ? count : 1, sizeof *sum);
    for (int i = 1; i < count; i++) sum[i] = sum[i - 1] + value[i - 1];
    return sum;
}

static void set_spans(Device *d, const char *text) {
    double *start, *end, before = 0, latest = 0;
    int n = pairs(text, &start, &end);
    d->span = calloc(n + 1, sizeof *d->span);
    for (int i = 0; i < n; i++) {
        if (end[i] <= start[i]) continue;
        if (start[i] < latest) fprintf(stderr, "fake nvml: intervals overlap or do not ascend\n"), abort();
        d->span[d->spans++] = (Span){start[i], end[i], before};
        before += end[i] - start[i], latest = end[i];
    }
    free(start), free(end);
}

static void set_pids(Device *d, const char *rest, int mirror) {
    for (char *p = (char *)rest, *end;; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p) break;
        if (mirror && d->mirrored < MAX_PIDS) d->mirror[d->mirrored++] = (int)pid;
        if (!mirror && d->pids < MAX_PIDS) d->pid[d->pids++] = (unsigned)pid;
    }
}

#define REAL(key) {#key, .real = &d->key}
#define WHOLE(key) {#key, .whole = &d->key}
#define WIDE(key) {#key, .wide = &d->key}
#define PLAIN(key) {#key, .plain = &d->key}

static int set_number(Device *d, const char *key, const char *rest) {
    const struct { const char *key; int *whole; double *real; unsigned long long *wide; unsigned *plain; } known[] = {
        REAL(window_ms), REAL(delay_ms), REAL(jitter_ms), REAL(memory_busy), REAL(rates_ms), REAL(power_limit),
        REAL(dry_idle), REAL(repeat_s), REAL(share), REAL(pcie_rate), REAL(sm), REAL(tensor), REAL(dram),
        WHOLE(loop), WHOLE(ring), WHOLE(rotate), WHOLE(garbage), WHOLE(mig), WHOLE(wrap32), WHOLE(temperature),
        WHOLE(arch), WHOLE(persistence), WHOLE(virtualization), WHOLE(usage_average), WHOLE(gpm),
        WHOLE(nvlink_links), WHOLE(nvlink_version), WIDE(memory_total), WIDE(memory_used), WIDE(reasons),
        PLAIN(gpu_instance), PLAIN(compute_instance),
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].key, key)) continue;
        if (known[i].whole) *known[i].whole = atoi(rest);
        if (known[i].real) *known[i].real = atof(rest);
        if (known[i].wide) *known[i].wide = strtoull(rest, NULL, 0);
        if (known[i].plain) *known[i].plain = (unsigned)strtoul(rest, NULL, 0);
        return 1;
    }
    return 0;
}

static void configure_device(Device *d, const char *key, const char *rest) {
    static const struct { const char *key; char kind; } rules[] = {
        {"unsupported", 'u'}, {"slow", 's'}, {"crash", 'x'}, {"counter", 'c'}, {"fail", 'f'}, {"fail_after_calls", 'n'},
        {"dry", 'd'}, {"xid", 'e'}, {"latency_us", 'l'}, {"gpm_missing", 'g'}, {"nvlink_down", 'k'},
    };
    if (set_number(d, key, rest)) return;
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].key, key)) { add_rule(d, rules[i].kind, rest); return; }
    if (!strcmp(key, "uuid")) snprintf(d->uuid, sizeof d->uuid, "%s", rest);
    else if (!strcmp(key, "name")) snprintf(d->name, sizeof d->name, "%s", rest);
    else if (!strcmp(key, "slice_profile")) snprintf(d->profile, sizeof d->profile, "%s", rest);
    else if (!strcmp(key, "rounding")) d->down = !strcmp(rest, "down");
    else if (!strcmp(key, "compute")) sscanf(rest, "%d.%d", &d->major, &d->minor);
    else if (!strcmp(key, "watts")) sscanf(rest, "%lf %lf", &d->idle_watts, &d->busy_watts);
    else if (!strcmp(key, "power_ms")) sscanf(rest, "%lf %lf", &d->power_update_ms, &d->power_window_ms);
    else if (!strcmp(key, "nvlink_rate")) {
        if (sscanf(rest, "%lf %lf", &d->nvlink_rx, &d->nvlink_tx) < 2) d->nvlink_tx = d->nvlink_rx;
    } else if (!strcmp(key, "series")) d->count = pairs(rest, &d->busy, &d->power);
    else if (!strcmp(key, "intervals")) set_spans(d, rest);
    else if (!strcmp(key, "pids") || !strcmp(key, "mirror")) set_pids(d, rest, key[0] == 'm');
    else fprintf(stderr, "fake nvml: unknown key %s\n", key), abort();
}

static void complete(Device *d) {
    if (!d->count) fprintf(stderr, "fake nvml: a series needs pairs\n"), abort();
    d->start_ns = play.start_ns;
    d->busy_sum = sums(d->busy, d->count), d->power_sum = sums(d->power, d->count);
    if (d->span && d->busy_watts < 0) d->busy_watts = 300;
    if (d->parent && !d->name[0]) snprintf(d->name, sizeof d->name, "%.60s MIG %.30s", d->parent->name, d->profile);
    for (int i = 0; i < d->slices; i++) complete(d->slice[i]);
}

static char *configuration(void) {
    const char *text = getenv("GAPTOP_FAKE_NVML");
    if (!text || text[0] != '@') return strdup(text ? text : "device 0\n");
    FILE *file = fopen(text + 1, "r");
    if (!file) perror(text + 1), abort();
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    char *copy = calloc(size + 1, 1);
    rewind(file);
    if (fread(copy, 1, size, file) != (size_t)size) abort();
    fclose(file);
    return copy;
}

static void configure(void) {
    char *copy = configuration(), *save = NULL;
    Device *gpu = NULL, *d = NULL;
    strcpy(play.clock, "epoch"), strcpy(play.driver, "595.45.04");
    play.start_ns = INT64_MIN;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char key[64];
        int used = 0;
        if (sscanf(line, "%63s %n", key, &used) < 1) continue;
        const char *rest = line + used;
        if (!strcmp(key, "device")) {
            if (play.devices == MAX_DEVICES) abort();
            d = gpu = play.device[play.devices] = new_device(play.devices, NULL);
            play.devices++;
        } else if (!strcmp(key, "slice") && gpu) {
            if (gpu->slices == MAX_SLICES) abort();
            d = gpu->slice[gpu->slices] = new_device(gpu->slices, gpu);
            gpu->slices++;
        } else if (d) configure_device(d, key, rest);
        else if (!strcmp(key, "clock")) snprintf(play.clock, sizeof play.clock, "%s", rest);
        else if (!strcmp(key, "driver")) snprintf(play.driver, sizeof play.driver, "%s", rest);
        else if (!strcmp(key, "init_error")) play.init_error = atoi(rest);
        else if (!strcmp(key, "init_ms")) play.init_ms = atof(rest);
        else if (!strcmp(key, "start_ns")) play.start_ns = atoll(rest);
        else if (!strcmp(key, "offset_ns")) play.offset_ns = atoll(rest);
        else if (!strcmp(key, "virtual")) virtual_clock.on |= atoi(rest);
        else fprintf(stderr, "fake nvml: unknown key %s\n", key), abort();
    }
    free(copy);
    if (play.start_ns == INT64_MIN) play.start_ns = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < play.devices; i++) {
        complete(play.device[i]);
        if (virtual_clock.on && play.device[i]->mirrored) fprintf(stderr, "fake nvml: a mirror goes by real time\n"), abort();
    }
    play.loaded = 1;
}

#endif
