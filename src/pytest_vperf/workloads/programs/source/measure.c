#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time)) {
        perror("clock_gettime");
        exit(2);
    }
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct timed repeat_for(double seconds, long first, long most, void (*work)(long turns))
{
    struct timed all = {0, 0};
    double start = now();
    for (long next = first < most ? first : most; all.seconds < seconds && next > 0;) {
        work(next);
        all.turns += next;
        all.seconds = now() - start;
        double rest = (seconds - all.seconds) * (double)all.turns / all.seconds;
        next = rest < (double)first ? first : rest > (double)all.turns ? all.turns : (long)rest;
        if (next > most - all.turns)
            next = most - all.turns;
    }
    return all;
}

double option(int argc, char **argv, const char *name, double fallback, double least, double most)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (!argv[i] || strncmp(argv[i], "--", 2) || strncmp(argv[i] + 2, name, length) || argv[i][2 + length] != '=')
            continue;
        char *end;
        const char *text = argv[i] + 3 + length;
        double value = strtod(text, &end);
        if (end == text || *end || !(value >= least) || !(value <= most)) {
            fprintf(stderr, "--%s is '%s', not a number from %g to %g\n", name, text, least, most);
            exit(2);
        }
        argv[i] = NULL;
        return value;
    }
    return fallback;
}

void no_other_options(int argc, char **argv, const char *name_and_version)
{
    for (int i = 1; i < argc; i++) {
        if (!argv[i])
            continue;
        if (!strcmp(argv[i], "--version")) {
            printf("%s\n", name_and_version);
            exit(0);
        }
        fprintf(stderr, "%s: there is no option '%s'\n", name_and_version, argv[i]);
        exit(2);
    }
}

void wrong(const char *what, double found, double expected)
{
    fprintf(stderr, "wrong result: %s is %.17g, not %.17g\n", what, found, expected);
    exit(3);
}
