/* A library that is loaded before others (LD_PRELOAD) and gives a process a wall clock of its own:
 * CLOCK_AHEAD_S seconds ahead of the machine's, or behind it. Other clocks, and how long a wait lasts, stay as
 * they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long ahead(void)
{
    const char *seconds = getenv("CLOCK_AHEAD_S");
    return seconds ? atol(seconds) : 0;
}

/* The machine's time of a deadline. One of the monotonic clock, which begins with the machine, is small. */
static const struct timespec *deadline(const struct timespec *shifted, struct timespec *own)
{
    *own = *shifted;
    if (shifted->tv_sec > 1000000000)
        own->tv_sec -= ahead();
    return own;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = NEXT(clock_gettime)(clock, now);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return status;
}

int gettimeofday(struct timeval *now, void *zone)
{
    int status = NEXT(gettimeofday)(now, zone);
    if (!status)
        now->tv_sec += ahead();
    return status;
}

int timespec_get(struct timespec *now, int base)
{
    int status = NEXT(timespec_get)(now, base);
    if (status == TIME_UTC)
        now->tv_sec += ahead();
    return status;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec own;
    return NEXT(pthread_cond_timedwait)(condition, mutex, deadline(until, &own));
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    struct timespec own;
    return NEXT(cnd_timedwait)(condition, mutex, deadline(until, &own));
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    struct timespec own;
    return NEXT(sem_timedwait)(semaphore, deadline(until, &own));
}
