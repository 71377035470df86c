/* Mirror mode: the CPU time of given processes' threads, shown as a GPU's utilisation.
 *
 * A thread wakes every 20 ms, reads /proc/PID/task/TID/schedstat (the first number: nanoseconds on a core) of every
 * thread, and takes the busiest thread's share of that tick: near to "at least one kernel ran". A window's busy is the
 * mean of its ticks, a boxcar like the driver's. A process that is gone is idle. */
#ifndef GAPTOP_MIRROR_H
#define GAPTOP_MIRROR_H

#include "windows.h"

typedef struct { Device *device; Watched thread[MAX_THREADS]; int threads; } Mirror;

static void list_threads(Mirror *m) {
    for (int i = 0; i < m->threads; i++) m->thread[i].seen = 0;
    for (int p = 0; p < m->device->mirrored; p++) {
        char folder[64];
        snprintf(folder, sizeof folder, "/proc/%d/task", m->device->mirror[p]);
        DIR *tasks = opendir(folder);
        if (!tasks) continue;
        for (struct dirent *entry; (entry = readdir(tasks));) {
            if (entry->d_name[0] == '.') continue;
            char path[96];
            snprintf(path, sizeof path, "%.40s/%.20s/schedstat", folder, entry->d_name);
            int i = 0;
            while (i < m->threads && strcmp(m->thread[i].path, path)) i++;
            if (i == m->threads) {
                if (i == MAX_THREADS) continue;
                m->threads++;
                snprintf(m->thread[i].path, sizeof m->thread[i].path, "%s", path);
                m->thread[i].last_ns = -1;
            }
            m->thread[i].seen = 1;
        }
        closedir(tasks);
    }
    for (int i = 0; i < m->threads;) {
        if (m->thread[i].seen) i++;
        else m->thread[i] = m->thread[--m->threads];
    }
}

static double busiest(Mirror *m, double elapsed_ns) {
    double most = 0;
    for (int i = 0; i < m->threads; i++) {
        FILE *file = fopen(m->thread[i].path, "r");
        long long ran;
        if (!file) continue;
        if (fscanf(file, "%lld", &ran) == 1) {
            if (m->thread[i].last_ns >= 0 && ran - m->thread[i].last_ns > most) most = ran - m->thread[i].last_ns;
            m->thread[i].last_ns = ran;
        }
        fclose(file);
    }
    return most >= elapsed_ns ? 1 : most / elapsed_ns;
}

static void *mirror_loop(void *argument) {
    Mirror *m = argument;
    Device *d = m->device;
    long long tick = 0, k = 0, ticks = window_ns(d) / MIRROR_TICK_NS, last = real_ns(CLOCK_MONOTONIC);
    double sum = 0, weight = 0;
    pthread_mutex_lock(&play_lock);
    d->start_ns = last;
    pthread_mutex_unlock(&play_lock);
    for (;;) {
        if (tick % 5 == 0) list_threads(m);
        long long next = d->start_ns + (tick + 1) * MIRROR_TICK_NS;
        struct timespec until = {next / 1000000000LL, next % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        long long now = real_ns(CLOCK_MONOTONIC);
        double ran = busiest(m, now - last) * (now - last);
        sum += ran, weight += now - last, last = now;
        pthread_mutex_lock(&play_lock);
        d->mirror_seconds += ran / 1e9;
        if (++tick % ticks) {
            pthread_mutex_unlock(&play_lock);
            continue;
        }
        d->mirror_busy[k % MIRROR_KEEP] = sum / weight;
        d->mirror_joules += (60 + 240 * sum / weight) * d->window_ms / 1e3;
        d->mirror_windows = ++k;
        pthread_mutex_unlock(&play_lock);
        sum = weight = 0;
    }
    return NULL;
}

static void start_mirrors(void) {
    for (int i = 0; i < play.devices; i++) {
        if (!play.device[i]->mirrored) continue;
        Mirror *m = calloc(1, sizeof *m);
        pthread_t thread;
        m->device = play.device[i];
        pthread_create(&thread, NULL, mirror_loop, m);
    }
}

#endif
