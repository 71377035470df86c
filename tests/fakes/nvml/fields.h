/* nvmlDeviceGetFieldValues and NVLink: each field has its own answer, its own status and what it took to get it. */
#ifndef GAPTOP_FIELDS_H
#define GAPTOP_FIELDS_H

#include "calls.h"
#include "windows.h"

#define ALL_LINKS 0xFFFFFFFFu
#define MAX_LINKS 18u
typedef union { double d; unsigned u; unsigned long long ull; long long sll; } Value;
typedef struct { unsigned id, scope; long long stamp, latency; unsigned type; int status; Value value; } Field;

static int link_is_up(const Device *d, unsigned link) {
    char name[16];
    snprintf(name, sizeof name, "%u", link);
    return link < (unsigned)d->nvlink_links && !rule_of(d, 'k', name);
}

/* A counter of rate a second. With wrap32 it has 32 bits and is one second from its first wrap at the play's start. */
static void put_counter(const Device *d, Field *f, double rate) {
    double played = seconds_played(d);
    unsigned long long number = (unsigned long long)((played > 0 ? played : 0) * rate);
    if (d->wrap32) f->type = 1, f->value.u = (unsigned)(number + 0xFFFFFFFFULL - (unsigned long long)rate);
    else f->value.ull = number;
}

/* Fields 138..141 count KiB (up to NVLink 4), 201..204 packets and bytes (NVLink 5); scope is the link. */
static int answer_nvlink(const Device *d, Field *f) {
    int newer = f->id >= 201, sending = newer ? f->id <= 202 : f->id % 2 == 0, links = 0;
    if (newer != (d->nvlink_version >= 5) || !d->nvlink_links) return NOT_SUPPORTED;
    if (f->scope == ALL_LINKS) for (unsigned i = 0; i < MAX_LINKS; i++) links += link_is_up(d, i);
    else if (f->scope >= MAX_LINKS) return INVALID;
    else if (!link_is_up(d, f->scope)) return NOT_SUPPORTED;
    else links = 1;
    double rate = (sending ? d->nvlink_tx : d->nvlink_rx) * links;
    if (!newer) rate /= f->id >= 140 ? 1024 / 1.2 : 1024; /* raw: with what the protocol adds */
    else if (f->id == 201 || f->id == 203) rate /= 256;
    put_counter(d, f, rate);
    return OK;
}

static void answer(Device *d, Field *f) {
    char name[64];
    const Rule *rule;
    f->stamp = clock_ns(CLOCK_REALTIME) / 1000, f->status = OK, f->type = 3, f->value.ull = 0;
    snprintf(name, sizeof name, "%u", f->id);
    f->latency = (rule = rule_of(d, 'l', name)) || (rule = rule_of(d, 'l', "all")) ? (long long)rule->a : 20;
    rule = rule_of(d, 'c', name);
    snprintf(name, sizeof name, "field:%u", f->id);
    const Rule *lacking = rule_of(d, 'u', name);
    if (lacking) f->status = lacking->a ? (int)lacking->a : NOT_SUPPORTED;
    else if (f->id == 186) f->type = 1, f->value.u = (unsigned)lround(watts(d) * 1000);
    else if (f->id == 185) f->type = 1, f->value.u = (unsigned)lround(watts_of_second(d) * 1000);
    else if (f->id == 83 || f->id == 191) f->value.ull = millijoules(d);
    else if (f->id == 197 || f->id == 198) put_counter(d, f, d->pcie_rate);
    else if ((f->id >= 138 && f->id <= 141) || (f->id >= 201 && f->id <= 204)) f->status = answer_nvlink(d, f);
    else if (f->id == 91) f->type = 1, f->value.u = (unsigned)d->nvlink_links;
    else if ((f->id >= 74 && f->id <= 79) || (f->id >= 269 && f->id <= 271))
        f->value.ull = rule ? (unsigned long long)(seconds_played(d) * rule->a * 1e9) : 0;
    else f->status = f->id > 300 ? INVALID : NOT_SUPPORTED;
}

EXPORT nvmlDeviceGetFieldValues(Device *d, int count, Field *fields) {
    ENTER(d, __func__);
    pthread_mutex_lock(&play_lock);
    for (int i = 0; i < count; i++) answer(d, &fields[i]);
    pthread_mutex_unlock(&play_lock);
    return OK;
}

EXPORT nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *active) {
    ENTER(d, __func__);
    if (link >= MAX_LINKS) return INVALID;
    if (link >= (unsigned)d->nvlink_links) return NOT_SUPPORTED;
    return *active = (unsigned)link_is_up(d, link), OK;
}

/* Each counter takes 20 ms, during which the call does not return. */
EXPORT nvmlDeviceGetPcieThroughput(Device *d, unsigned counter, unsigned *out) {
    (void)counter;
    ENTER(d, __func__);
    pass(20);
    return *out = (unsigned)(d->pcie_rate / 1024), OK;
}
EXPORT nvmlDeviceGetFanSpeed(Device *d, unsigned *out) { ENTER(d, __func__); return *out = 30, OK; }
EXPORT nvmlDeviceGetFanSpeed_v2(Device *d, unsigned fan, unsigned *out) { (void)fan; ENTER(d, __func__); return *out = 30, OK; }

#endif
