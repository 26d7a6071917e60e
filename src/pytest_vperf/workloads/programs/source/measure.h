/* What the programs share: the clock, the arguments, and how an error is told. */
#ifndef VPERF_MEASURE_H
#define VPERF_MEASURE_H

/* The compiler may not look into a function, nor let what it knows of it into its callers: published rules of
 * Dhrystone forbid merging procedures, and work whose result is known would not be done at all. */
#if defined(__GNUC__) && !defined(__clang__)
#define APART __attribute__((noipa))
#else
#define APART __attribute__((noinline))
#endif

/* Seconds on the monotonic clock. */
double now(void);

/* How much was done, and in which time. */
struct timed {
    long turns;
    double seconds;
};

/* Does `work` for a time, or for as many turns as are allowed: `first` turns, then twice as many before each look at
 * the clock, until another doubling would be too long. No turns in no time for a time of 0. */
struct timed repeat_for(double seconds, long first, long most, void (*work)(long turns));

/* The value of --NAME=VALUE as a number between least and most, or the default; ends the program with status 2 for
 * a value that is none. Options are taken away from those that `no_other_options` complains about. */
double option(int argc, char **argv, const char *name, double fallback, double least, double most);

/* Ends the program with status 2 where an argument is none of the options that were asked for, or with status 0
 * after printing the name for --version. */
void no_other_options(int argc, char **argv, const char *name_and_version);

/* Ends the program with status 3: a result is not what it has to be. */
void wrong(const char *what, double found, double expected);

#endif
