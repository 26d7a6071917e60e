/* Preloaded, it steps a process's wall clock by the seconds that the file named by STEPPED_CLOCK begins with: a
   native-endian 64-bit integer, read at each call, so that all processes of a run are stepped at once. The monotonic
   clocks go on as they are, as after clock_settime(2) or a step of NTP's. (libfaketime 0.9.10 makes sleeps fail where
   it leaves the monotonic clocks alone.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("STEPPED_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *at = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED)
            step = at;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = syscall(SYS_clock_gettime, clock, now);
    if (!status && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *step;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int status = syscall(SYS_gettimeofday, now, zone);
    if (!status && step)
        now->tv_sec += *step;
    return status;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}

/* Waits until a time: one of the wall clock is stepped back for the kernel, which knows of no step. A time of the
   monotonic clock is told by its size: that counts from the machine's start, for less than 31 years. */
static clockid_t clock_of(const struct timespec *until, struct timespec *real) {
    *real = *until;
    if (until->tv_sec < 1000000000)
        return CLOCK_MONOTONIC;
    if (step)
        real->tv_sec -= *step;
    return CLOCK_REALTIME;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = clock_of(until, &real);
    return pthread_cond_clockwait(condition, mutex, clock, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = clock_of(until, &real);
    return pthread_mutex_clocklock(mutex, clock, &real);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = clock_of(until, &real);
    return sem_clockwait(semaphore, clock, &real);
}
