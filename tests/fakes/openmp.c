/* An OpenMP program that computes when it is told to, and says how long each of its threads really worked.

   openmp THREADS REGION_MS SERIAL_MS REGIONS SKEW

   It prints "idle" and, for each thread, the CPU time it has had and the part of it that was work (nanoseconds). Then its
   main thread sleeps until a line comes on the standard input, prints the same with "go", and does REGIONS times a
   parallel region, in which each thread works REGION_MS of its own CPU time (thread k 1 + k * SKEW times as long), and
   SERIAL_MS of work of the main thread alone. Work is measured on the thread's own CPU clock, so that it is the same
   amount on a crowded machine. It ends with its standard input. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 64

static long long work[MOST];
static pthread_t threads[MOST];
static int count;

static long long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void burn(int k, double wanted) {
    long long start = now(CLOCK_THREAD_CPUTIME_ID), done = 0;
    volatile double x = 1.0;
    while (done < wanted) {
        for (int i = 0; i < 2000; i++) x = x * 1.0000001 + 1e-9;
        done = now(CLOCK_THREAD_CPUTIME_ID) - start;
    }
    work[k] += done;
}

static void say(const char *what) {
    printf("%s", what);
    for (int k = 0; k < count; k++) {
        clockid_t clock;
        pthread_getcpuclockid(threads[k], &clock);
        printf(" %lld %lld", now(clock), work[k]);
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 6 || (count = atoi(argv[1])) < 1 || count > MOST) return 2;
    double region = atof(argv[2]) * 1e6, serial = atof(argv[3]) * 1e6, skew = atof(argv[5]);
    int regions = atoi(argv[4]);
    omp_set_dynamic(0);
#pragma omp parallel num_threads(count)
    threads[omp_get_thread_num()] = pthread_self();
    for (;;) {
        say("idle");
        if (getchar() == EOF) return 0;
        say("go");
        for (int r = 0; r < regions; r++) {
#pragma omp parallel num_threads(count)
            burn(omp_get_thread_num(), region * (1 + skew * omp_get_thread_num()));
            burn(0, serial);
        }
    }
}
