/* What a device did between two moments of the play (seconds since its window 0 began), and its windows of that. */
#ifndef GAPTOP_WINDOWS_H
#define GAPTOP_WINDOWS_H

#include "play.h"

static long long window_ns(const Device *d) { return (long long)(d->window_ms * 1e6); }

/* When window k begins: on a grid of windows, or off it by up to jitter_ms, the same each time it is asked. */
static long long edge_ns(const Device *d, long long k) {
    if (!d->jitter_ms || k <= 0) return k * window_ns(d);
    uint64_t mixed = (uint64_t)k * 0x9E3779B97F4A7C15ULL;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL;
    double chance = (double)(mixed >> 40) / (1 << 24) * 2 - 1;
    return k * window_ns(d) + (long long)(chance * d->jitter_ms * 1e6);
}

/* The sum, from the play's start to t, of what a series tells of each window. */
static double summed(const Device *d, const double *value, const double *sum, double t) {
    double windows = t * 1e3 / d->window_ms;
    long long whole = (long long)windows;
    double rest = windows - whole, round = sum[d->count - 1] + value[d->count - 1];
    double before, now;
    if (d->loop) {
        before = (double)(whole / d->count) * round + sum[whole % d->count];
        now = value[whole % d->count];
    } else if (whole < d->count) before = sum[whole], now = value[whole];
    else before = round + (double)(whole - d->count) * value[d->count - 1], now = value[d->count - 1];
    return (before + rest * now) * d->window_ms / 1e3;
}

static double in_spans(const Device *d, double t) {
    int low = 0, high = d->spans; /* spans [0, low) begin before t */
    while (low < high) {
        int middle = (low + high) / 2;
        if (d->span[middle].start < t) low = middle + 1;
        else high = middle;
    }
    if (!low) return 0;
    const Span *last = &d->span[low - 1];
    return last->before + (t < last->end ? t : last->end) - last->start;
}

/* Busy seconds from the play's start to t; of a mirror, until now. */
static double busy_until(const Device *d, double t) {
    if (d->mirrored) return d->mirror_seconds;
    if (t <= 0) return 0;
    if (d->share >= 0 && d->parent) return d->share * busy_until(d->parent, t);
    if (!d->span) return summed(d, d->busy, d->busy_sum, t);
    if (d->repeat_s <= 0) return in_spans(d, t);
    double rounds = floor(t / d->repeat_s);
    return rounds * in_spans(d, d->repeat_s) + in_spans(d, t - rounds * d->repeat_s);
}

static double joules_until(const Device *d, double t) {
    if (t <= 0) return 0;
    if (!d->span && d->busy_watts < 0) return summed(d, d->power, d->power_sum, t);
    return d->idle_watts * t + (d->busy_watts - d->idle_watts) * busy_until(d, t);
}

/* Number of windows whose reading is out at a time (nanoseconds of CLOCK_MONOTONIC since window 0 began). */
static long long out_at(const Device *d, long long since) {
    since -= (long long)(d->delay_ms * 1e6);
    long long out = since < 0 ? 0 : since / window_ns(d);
    if (since >= 0 && edge_ns(d, out + 1) <= since) out++;
    if (out > 0 && edge_ns(d, out) > since) out--;
    return d->mirrored && d->mirror_windows < out ? d->mirror_windows : out;
}

static long long windows_out(const Device *d) { return out_at(d, clock_ns(CLOCK_MONOTONIC) - d->start_ns); }

/* The window that GetUtilizationRates tells of: with rates_ms a copy that is made anew each so often. */
static long long rates_window(const Device *d) {
    long long since = clock_ns(CLOCK_MONOTONIC) - d->start_ns, each = (long long)(d->rates_ms * 1e6);
    return out_at(d, each && since > 0 ? since / each * each : since) - 1;
}

/* The busy share of window k. */
static double busy_of(const Device *d, long long k) {
    if (d->mirrored) return d->mirror_busy[k % MIRROR_KEEP];
    if (!d->span && d->share < 0) return d->busy[d->loop ? k % d->count : k < d->count ? k : d->count - 1];
    double start = edge_ns(d, k) / 1e9, end = edge_ns(d, k + 1) / 1e9;
    return (busy_until(d, end) - busy_until(d, start)) / (end - start);
}

static double power_of(const Device *d, long long k) {
    if (d->mirrored) return 60 + 240 * busy_of(d, k);
    if (!d->span && d->busy_watts < 0) return d->power[d->loop ? k % d->count : k < d->count ? k : d->count - 1];
    return d->idle_watts + (d->busy_watts - d->idle_watts) * busy_of(d, k);
}

/* A share as the driver's whole per cents. What is added is less than any share can be told apart by. */
static unsigned percent(const Device *d, double share) { return (unsigned)(share * 100 + (d->down ? 1e-6 : 0.5)); }

static int is_dry(const Device *d, long long k) {
    double end = (k + 1) * d->window_ms / 1e3;
    if (d->dry_idle >= 0 && !d->mirrored && end >= d->dry_idle + d->window_ms / 1e3) {
        double since = end - d->dry_idle - d->window_ms / 1e3; /* the rest is less than the sums can tell */
        if (busy_until(d, end) - busy_until(d, since) < 1e-9) return 1;
    }
    for (int i = 0; i < d->rules; i++)
        if (d->rule[i].kind == 'd' && end >= d->rule[i].a && end < d->rule[i].b) return 1;
    return 0;
}

static double mean_watts(const Device *d, double from, double to) {
    if (from < 0) from = 0;
    return to > from ? (joules_until(d, to) - joules_until(d, from)) / (to - from) : power_of(d, 0);
}

/* Power now: of the newest window, or (power_ms) of a short window that is taken anew each so often. */
static double watts(const Device *d) {
    if (!d->mirrored && d->power_update_ms > 0) {
        double to = floor(seconds_played(d) * 1e3 / d->power_update_ms) * d->power_update_ms / 1e3;
        return mean_watts(d, to - d->power_window_ms / 1e3, to);
    }
    long long k = windows_out(d) - 1;
    return power_of(d, k < 0 ? 0 : k);
}

static double watts_of_second(const Device *d) {
    if (d->mirrored) return watts(d);
    double now = seconds_played(d);
    return mean_watts(d, now - 1, now);
}

static unsigned long long millijoules(const Device *d) {
    if (d->mirrored) return (unsigned long long)llround(d->mirror_joules * 1000);
    return (unsigned long long)llround(joules_until(d, windows_out(d) * d->window_ms / 1e3) * 1000);
}

static int idle_now(const Device *d) {
    long long k = windows_out(d) - 1;
    return k < 0 || busy_of(d, k) == 0;
}

#endif
