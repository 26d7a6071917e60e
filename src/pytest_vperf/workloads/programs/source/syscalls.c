/* What it costs to enter the kernel and come back: getppid, asked for again and again.
 *
 * The "null" system call of lmbench 2 and 3 (lat_syscall(8): "null measures how long it takes to do getppid()"): a
 * call that does next to nothing, so that the way in and out is what is timed. lmbench chose it since its answer can
 * change, so that no library may keep it, as one once did with getpid's; no vDSO has it either. It goes through
 * syscall(2), so that what is between the program and the kernel is the same whatever the C library.
 *
 * Every answer has to be the parent's number, as it was before the run and as it is in /proc/self/stat.
 *
 *     vperf-syscalls [--seconds=S] [--warmup=S]
 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME "vperf-syscalls 1.0"

#define MOST 2000000000L
#define FIRST_TURNS 1000

static long parent, calls, right;

/* The fourth field of proc(5)'s stat; the second one, the name, is in parentheses. */
static long parent_by_proc(void)
{
    char text[512];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    char *after = strrchr(text, ')');
    char state;
    long number;
    if (!after || sscanf(after + 1, " %c %ld", &state, &number) != 2) {
        fprintf(stderr, "/proc/self/stat cannot be read\n");
        exit(2);
    }
    return number;
}

static void turns(long count)
{
    for (long turn = 0; turn < count; turn++)
        right += syscall(SYS_getppid) == parent;
    calls += count;
}

int main(int argc, char **argv)
{
    double seconds = option(argc, argv, "seconds", 2, 0.01, 60);
    double warmup = option(argc, argv, "warmup", 0, 0, 5);
    no_other_options(argc, argv, NAME);

    parent = parent_by_proc();
    repeat_for(warmup, FIRST_TURNS, MOST, turns);
    struct timed all = repeat_for(seconds, FIRST_TURNS, MOST, turns);
    if (right != calls)
        wrong("the number of right answers", (double)right, (double)calls);
    if (parent_by_proc() != parent)
        wrong("the parent after the run", (double)parent_by_proc(), (double)parent);
    printf("%s\ncalls: %ld\nseconds: %.6f\ncalls per second: %.1f\nchecked: yes\n", NAME, all.turns, all.seconds,
           (double)all.turns / all.seconds);
    return 0;
}
