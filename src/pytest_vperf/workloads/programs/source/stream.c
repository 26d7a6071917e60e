/* Memory bandwidth by the four kernels of STREAM: J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High
 * Performance Computers", IEEE TCCA Newsletter, December 1995.
 *
 * copy c = a (16 bytes for each element), scale b = s c (16), add c = a + b (24), triad a = b + s c (24). Bytes are
 * counted as the program asks for them, not the cache's reading of a line before it is written; MB are 10^6 bytes.
 * The best of all repetitions but the first counts, as in the original; median and worst are printed beside it.
 * Plain loads and stores, no streaming stores, no vector instructions beyond what the compiler is told to use.
 *
 * The kernels run in turn, as in the original; with --grouped=1 all repetitions of one come before the next, as
 * lmbench has it: what a kernel finds in the caches then is what it left there itself.
 *
 *     vperf-stream [--elements=N] [--repetitions=N] [--grouped=1]
 */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "vperf-stream 1.0"

static const double SCALAR = 3.0;

APART static void copy(double *a, double *b, double *c, size_t n)
{
    (void)b;
    for (size_t i = 0; i < n; i++)
        c[i] = a[i];
}

APART static void scale(double *a, double *b, double *c, size_t n)
{
    (void)a;
    for (size_t i = 0; i < n; i++)
        b[i] = SCALAR * c[i];
}

APART static void add(double *a, double *b, double *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

APART static void triad(double *a, double *b, double *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + SCALAR * c[i];
}

static const struct kernel {
    const char *name;
    void (*run)(double *, double *, double *, size_t);
    double bytes;
} KERNELS[] = {{"copy", copy, 16}, {"scale", scale, 16}, {"add", add, 24}, {"triad", triad, 24}};

#define COUNT (sizeof KERNELS / sizeof KERNELS[0])

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double *array(size_t n, double value)
{
    void *memory;
    if (posix_memalign(&memory, 4096, n * sizeof(double))) {
        fprintf(stderr, "there is no memory for %zu numbers\n", n);
        exit(2);
    }
    double *numbers = memory;
    for (size_t i = 0; i < n; i++)
        numbers[i] = value;
    return numbers;
}

/* Every element has to be what the kernels make of one number. Powers of 15 soon leave a double's whole numbers, so
 * the comparison is relative; what grows beyond a double would be caught as not finite. */
static void check(const char *name, const double *numbers, size_t n, double expected)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(numbers[i]) || fabs(numbers[i] - expected) > 1e-12 * fabs(expected))
            wrong(name, numbers[i], expected);
}

int main(int argc, char **argv)
{
    size_t n = (size_t)option(argc, argv, "elements", 1e7, 1000, 1e11);
    /* Each repetition makes the numbers 15 times larger: 200 stay far below 10^308. */
    int repetitions = (int)option(argc, argv, "repetitions", 10, 2, 200);
    int grouped = (int)option(argc, argv, "grouped", 0, 0, 1);
    no_other_options(argc, argv, NAME);

    double *a = array(n, 1.0), *b = array(n, 2.0), *c = array(n, 0.0);
    double(*times)[COUNT] = calloc((size_t)repetitions, sizeof *times), of_kernel[200];
    if (!times)
        return 2;
    double in_a = 1.0, in_b = 2.0, in_c = 0.0;
    size_t steps = (size_t)repetitions * COUNT;
    for (size_t step = 0; step < steps; step++) {
        size_t r = grouped ? step % (size_t)repetitions : step / COUNT;
        size_t k = grouped ? step / (size_t)repetitions : step % COUNT;
        double start = now();
        KERNELS[k].run(a, b, c, n);
        times[r][k] = now() - start;
    }
    /* A kernel that is repeated at once gives the same again. */
    for (int r = 0; r < (grouped ? 1 : repetitions); r++) {
        in_c = in_a;
        in_b = SCALAR * in_c;
        in_c = in_a + in_b;
        in_a = in_b + SCALAR * in_c;
    }
    check("an element of a", a, n, in_a);
    check("an element of b", b, n, in_b);
    check("an element of c", c, n, in_c);

    printf("%s\nelements: %zu\narray bytes: %zu\nrepetitions: %d\n%s", NAME, n, n * sizeof(double), repetitions,
           grouped ? "grouped: 1\n" : "");
    for (size_t k = 0; k < COUNT; k++) {
        int counted = 0;
        for (int r = 1; r < repetitions; r++)
            of_kernel[counted++] = times[r][k];
        qsort(of_kernel, (size_t)counted, sizeof(double), ascending);
        double megabytes = KERNELS[k].bytes * (double)n / 1e6;
        printf("%s: %.2f MB/s best, %.2f MB/s median, %.2f MB/s worst\n", KERNELS[k].name, megabytes / of_kernel[0],
               megabytes / of_kernel[counted / 2], megabytes / of_kernel[counted - 1]);
    }
    printf("checked: yes\n");
    return 0;
}
