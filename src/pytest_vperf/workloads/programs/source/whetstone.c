/* Floating point speed by the modules of Whetstone: H. J. Curnow and B. A. Wichmann, "A synthetic benchmark", The
 * Computer Journal 19(1), 1976, in double precision.
 *
 * The weights of the modules are the paper's (0, 12, 14, 345, -, 210, 32, 899, 616, 0, 93), so that one turn of them all is
 * 100 000 Whetstone instructions; modules of weight 0 do nothing in any turn and are left out. A pass is ten turns,
 * from the same beginning each time: numbers do not drift towards zero in a long run, and each pass has to end with
 * the same known results.
 *
 *     vperf-whetstone [--seconds=S | --passes=N] [--warmup=S]
 */
#include "measure.h"

#include <math.h>
#include <stdio.h>

#define NAME "vperf-whetstone 1.1"
#define MOST 1000000000L

enum { TURNS = 10 };

static const double T = 0.499975, T1 = 0.50025, T2 = 2.0;

/* Volatile factors keep the compiler from counting the turns by itself. */
static volatile int turns = TURNS;

APART static double array_elements(int n)
{
    double e[4] = {1.0, -1.0, -1.0, -1.0};
    for (int i = 0; i < n; i++) {
        e[0] = (e[0] + e[1] + e[2] - e[3]) * T;
        e[1] = (e[0] + e[1] - e[2] + e[3]) * T;
        e[2] = (e[0] - e[1] + e[2] + e[3]) * T;
        e[3] = (-e[0] + e[1] + e[2] + e[3]) * T;
    }
    return e[3];
}

APART static void of_parameter(double *e)
{
    for (int j = 0; j < 6; j++) {
        e[0] = (e[0] + e[1] + e[2] - e[3]) * T;
        e[1] = (e[0] + e[1] - e[2] + e[3]) * T;
        e[2] = (e[0] - e[1] + e[2] + e[3]) * T;
        e[3] = (-e[0] + e[1] + e[2] + e[3]) / T2;
    }
}

APART static double array_parameter(int n)
{
    double e[4] = {1.0, -1.0, -1.0, -1.0};
    for (int i = 0; i < n; i++)
        of_parameter(e);
    return e[3];
}

APART static double conditional_jumps(int n)
{
    int j = 1;
    for (int i = 0; i < n; i++) {
        j = j == 1 ? 2 : 3;
        j = j > 2 ? 0 : 1;
        j = j < 1 ? 1 : 0;
    }
    return j;
}

APART static double integer_arithmetic(int n)
{
    double e[4] = {0, 0, 0, 0};
    int j = 1, k = 2, l = 3;
    for (int i = 0; i < n; i++) {
        j = j * (k - j) * (l - k);
        k = l * k - (l - j) * k;
        l = (l - k) * (k + j);
        e[l - 2] = j + k + l;
        e[k - 2] = j * k * l;
    }
    return e[0] + 10 * e[1];
}

APART static double trigonometric_functions(int n)
{
    double x = 0.5, y = 0.5;
    for (int i = 0; i < n; i++) {
        x = T * atan(T2 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) - 1.0));
        y = T * atan(T2 * sin(y) * cos(y) / (cos(x + y) + cos(x - y) - 1.0));
    }
    return x + y;
}

APART static void called(double x, double y, double *z)
{
    double x1 = T * (x + y);
    double y1 = T * (x1 + y);
    *z = (x1 + y1) / T2;
}

APART static double procedure_calls(int n)
{
    double x = 1.0, y = 1.0, z = 1.0;
    for (int i = 0; i < n; i++)
        called(x, y, &z);
    return z;
}

APART static void rotated(double *e, int j, int k, int l)
{
    e[j] = e[k];
    e[k] = e[l];
    e[l] = e[j];
}

APART static double array_references(int n)
{
    double e[4] = {0, 1.0, 2.0, 3.0};
    for (int i = 0; i < n; i++)
        rotated(e, 1, 2, 3);
    return e[1] + 10 * e[2] + 100 * e[3];
}

APART static double standard_functions(int n)
{
    double x = 0.75;
    for (int i = 0; i < n; i++)
        x = sqrt(exp(log(x) / T1));
    return x;
}

/* Every module many times before the next one, so that reading the clock costs nothing; what one pass is made of. */
static const struct module {
    const char *name;
    double (*run)(int);
    int weight;
    double expected;
    /* Floating point operations in one turn of the loop; 0 for modules that are not about them. */
    double operations;
} MODULES[] = {
    {"module 2, array elements", array_elements, 12, -1.1239790700461283, 16},
    {"module 3, array as a parameter", array_parameter, 14, -1.112313711350251, 96},
    {"module 4, conditional jumps", conditional_jumps, 345, 1.0, 0},
    {"module 6, integer arithmetic", integer_arithmetic, 210, 66.0, 0},
    {"module 7, trigonometric functions", trigonometric_functions, 32, 0.9807998141151455, 0},
    {"module 8, procedure calls", procedure_calls, 899, 0.99993750062499998, 6},
    {"module 9, array references", array_references, 616, 323.0, 0},
    {"module 11, standard functions", standard_functions, 93, 0.83466551951905177, 0},
};

#define COUNT (sizeof MODULES / sizeof MODULES[0])

static double taken[COUNT];

static void passes_of_all(long passes)
{
    for (size_t m = 0; m < COUNT; m++) {
        int n = MODULES[m].weight * turns;
        double found = 0, start = now();
        for (long i = 0; i < passes; i++) {
            found = MODULES[m].run(n);
            if (!(fabs(found - MODULES[m].expected) <= 1e-9 * fabs(MODULES[m].expected)))
                wrong(MODULES[m].name, found, MODULES[m].expected);
        }
        taken[m] += now() - start;
    }
}

int main(int argc, char **argv)
{
    double seconds = option(argc, argv, "seconds", 2, 0.01, 3600);
    double warmup = option(argc, argv, "warmup", 0, 0, 5);
    double passes = option(argc, argv, "passes", 0, 1, MOST);
    no_other_options(argc, argv, NAME);

    passes_of_all(1);
    repeat_for(warmup, 1, MOST, passes_of_all);
    for (size_t m = 0; m < COUNT; m++)
        taken[m] = 0;
    struct timed all;
    if (passes > 0)
        all = repeat_for(1e9, (long)passes, (long)passes, passes_of_all);
    else
        all = repeat_for(seconds, 1, MOST, passes_of_all);
    /* TURNS turns of 10^5 instructions are a million: passes per second are MWIPS. */
    printf("%s\npasses: %ld\nseconds: %.6f\nmillion Whetstone instructions per second: %.3f\n", NAME, all.turns,
           all.seconds, (double)all.turns * TURNS / 10 / all.seconds);
    for (size_t m = 0; m < COUNT; m++)
        if (MODULES[m].operations > 0)
            printf("million floating point operations per second of %s: %.3f\n", MODULES[m].name,
                   MODULES[m].operations * MODULES[m].weight * TURNS * (double)all.turns / 1e6 / taken[m]);
    printf("checked: yes\n");
    return 0;
}
