/* What it costs to go from one process to another: two of them on one processor hand a token to and fro through pipes.
 *
 * The ring of lmbench's lat_ctx (L. McVoy and C. Staelin, "lmbench: Portable Tools for Performance Analysis", USENIX
 * 1996, 6.6 "Context switching") with two processes of size 0: each reads the token from a pipe, which puts it to
 * sleep, and writes it to the other's. lmbench takes off what the pipes cost when one process uses them alone; this is
 * not done here, since the difference of two times is noisier than either: a switch is counted with one write and one
 * read of eight bytes, as in UnixBench's "Pipe-based Context Switching" (context1.c).
 *
 * Both are held on one processor, or two of them would pass the token without a switch. Each adds one to the token
 * and makes sure that it is the one it has to get. In the end the kernel's own count of the switches of both
 * (getrusage(2)) has to be at least the number of times that the token was handed on; where a kernel counts none, as
 * gVisor's, the output says so.
 *
 *     vperf-switches [--seconds=S] [--warmup=S]
 */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "vperf-switches 1.0"

#define MOST 1000000000L
#define FIRST_TURNS 100

static int there[2], back[2];
static long token;
static pid_t child;

static void failed(const char *what)
{
    perror(what);
    exit(2);
}

static void stay_on_one_processor(void)
{
    cpu_set_t one;
    int here = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(here < 0 ? 0 : here, &one);
    if (here < 0 || sched_setaffinity(0, sizeof one, &one))
        failed("sched_setaffinity");
}

/* Returns 0 at the end of the pipe. Eight bytes are written and read at once or not at all (pipe(7)). */
static int take(int from, long *what)
{
    ssize_t got;
    do
        got = read(from, what, sizeof *what);
    while (got < 0 && errno == EINTR);
    if (got != 0 && got != (ssize_t)sizeof *what)
        failed("read");
    return got != 0;
}

static void give(int to, long what)
{
    ssize_t done;
    do
        done = write(to, &what, sizeof what);
    while (done < 0 && errno == EINTR);
    if (done != (ssize_t)sizeof what)
        failed("write");
}

static void answer(void)
{
    long got;
    for (long expected = 0; take(there[0], &got); expected += 2) {
        if (got != expected)
            wrong("the token of the second process", (double)got, (double)expected);
        give(back[1], got + 1);
    }
    exit(0);
}

/* The second process has said why. */
static void ended(void)
{
    int status = 0;
    waitpid(child, &status, 0);
    fprintf(stderr, "the second process has ended\n");
    exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 2);
}

static void turns(long count)
{
    for (long turn = 0; turn < count; turn++) {
        long got;
        give(there[1], token);
        if (!take(back[0], &got))
            ended();
        if (got != token + 1)
            wrong("the token of the first process", (double)got, (double)token + 1);
        token = got + 1;
    }
}

static long switches_of(int who)
{
    struct rusage usage;
    if (getrusage(who, &usage))
        failed("getrusage");
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

int main(int argc, char **argv)
{
    double seconds = option(argc, argv, "seconds", 2, 0.01, 60);
    double warmup = option(argc, argv, "warmup", 0, 0, 5);
    no_other_options(argc, argv, NAME);

    stay_on_one_processor();
    if (pipe(there) || pipe(back))
        failed("pipe");
    long before = switches_of(RUSAGE_SELF);
    child = fork();
    if (child < 0)
        failed("fork");
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        answer();
    }
    close(there[0]);
    close(back[1]);
    repeat_for(warmup, FIRST_TURNS, MOST, turns);
    struct timed all = repeat_for(seconds, FIRST_TURNS, MOST, turns);
    close(there[1]);
    int status;
    if (waitpid(child, &status, 0) != child)
        failed("waitpid");
    if (status)
        wrong("the status of the second process", status, 0);
    long counted = switches_of(RUSAGE_SELF) - before + switches_of(RUSAGE_CHILDREN);
    if (counted && counted < token)
        wrong("the kernel's count of switches", (double)counted, (double)token);
    printf("%s\nswitches: %ld\nseconds: %.6f\nswitches per second: %.1f\ncounted by the kernel: %s\nchecked: yes\n", NAME,
           2 * all.turns, all.seconds, 2 * (double)all.turns / all.seconds, counted ? "yes" : "no");
    return 0;
}
