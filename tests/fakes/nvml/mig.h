/* MIG: a GPU's slices are devices with handles of their own; what they are, and how GPU and slice are found. */
#ifndef GAPTOP_MIG_H
#define GAPTOP_MIG_H

#include "calls.h"

EXPORT nvmlDeviceGetMigMode(Device *d, unsigned *current, unsigned *pending) {
    ENTER(d, __func__);
    return *current = *pending = (unsigned)d->mig, OK;
}
EXPORT nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *out) { ENTER(d, __func__); return *out = d->mig ? MAX_SLICES : 0, OK; }

/* Indexes need not be dense: one without a slice is NOT_FOUND, and a later one may be there. */
EXPORT nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **out) {
    ENTER(d, __func__);
    if (!d->mig) return NOT_SUPPORTED;
    if (index >= MAX_SLICES) return INVALID;
    if (index >= (unsigned)d->slices || !d->slice[index]->profile[0]) return NOT_FOUND;
    return *out = d->slice[index], OK;
}

EXPORT nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *d, Device **out) {
    ENTER(d, __func__);
    if (!d->parent) return INVALID;
    return *out = d->parent, OK;
}
EXPORT nvmlDeviceIsMigDeviceHandle(Device *d, unsigned *out) { ENTER(d, __func__); return *out = d->parent != NULL, OK; }

EXPORT nvmlDeviceGetGpuInstanceId(Device *d, unsigned *out) {
    ENTER(d, __func__);
    if (!d->parent) return NOT_SUPPORTED;
    return *out = d->gpu_instance, OK;
}
EXPORT nvmlDeviceGetComputeInstanceId(Device *d, unsigned *out) {
    ENTER(d, __func__);
    if (!d->parent) return NOT_SUPPORTED;
    return *out = d->compute_instance, OK;
}

typedef struct { unsigned sm, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; unsigned long long memory_mb; } Attributes;
EXPORT nvmlDeviceGetAttributes_v2(Device *d, Attributes *out) {
    ENTER(d, __func__);
    if (!d->parent) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->gpu_slices = out->compute_slices = (unsigned)atoi(d->profile);
    out->sm = 16 * out->gpu_slices, out->memory_mb = d->memory_total >> 20;
    return OK;
}

#endif
