/* Integer and text speed by the mix of statements of Dhrystone 2.1; see dhrystone.h for where it is published.
 *
 * Every variable is looked at in the end and has to be what the statements make of it. As the rules ask, procedures
 * are not merged (see APART) and the program is of two source files.
 *
 *     vperf-dhrystone [--seconds=S | --runs=N] [--warmup=S]
 */
#include "dhrystone.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "vperf-dhrystone 1.1"

/* The element that counts the runs is an int: both together are less than 2^31. */
#define MOST 2000000000L
#define MOST_WARMUP 100000000L
#define FIRST_TURNS 1000

/* 30 letters each; they differ at the twentieth. */
#define WORDS_1 "THIRTY CHARACTERS, 1ST STRING!"
#define WORDS_2 "THIRTY CHARACTERS, 2ND STRING!"
#define WORDS_3 "THIRTY CHARACTERS, 3RD STRING!"
#define WORDS_RECORD "THIRTY CHARACTERS IN A RECORD!"

struct record *top;
int number_shared, flag_shared;
char letter_a, letter_b;

static struct record *under;
static int row[ROW], table[ROW][ROW];

struct locals {
    int one, two, three;
    enum choice choice;
    text first, second;
};

APART void change_record(struct record *of)
{
    struct record *next = of->next;
    *of->next = *top;
    of->variant.first.number = 5;
    next->variant.first.number = of->variant.first.number;
    next->next = of->next;
    follow(&next->next);
    if (next->kind == FIRST) {
        next->variant.first.number = 6;
        choose(of->variant.first.choice, &next->variant.first.choice);
        next->next = top->next;
        add_with_two(next->variant.first.number, 10, &next->variant.first.number);
    } else {
        *of = *of->next;
    }
}

APART void lower_number(int *number)
{
    int lowered = *number + 10;
    enum choice done = SECOND;
    do {
        if (letter_a == 'A') {
            lowered -= 1;
            *number = lowered - number_shared;
            done = FIRST;
        }
    } while (done != FIRST);
}

APART void follow(struct record **to)
{
    if (top != NULL)
        *to = top->next;
    add_with_two(10, number_shared, &top->variant.first.number);
}

APART void set_flag(void)
{
    int is_a = letter_a == 'A';
    flag_shared = is_a | flag_shared;
    letter_b = 'B';
}

APART void clear_flag(void)
{
    letter_a = 'A';
    flag_shared = 0;
}

/* The measured loop. */
APART static void dhrystones(struct locals *found, int from, int to)
{
    int one = found->one, two = found->two, three = found->three;
    enum choice choice = found->choice;
    text first, second;
    strcpy(first, WORDS_1);
    strcpy(second, found->second);
    for (int run = from; run <= to; run++) {
        clear_flag();
        set_flag();
        one = 2;
        two = 3;
        strcpy(second, WORDS_2);
        choice = SECOND;
        flag_shared = !compare_texts(first, second);
        while (one < two) {
            three = 5 * one - two;
            add_with_two(one, two, &three);
            one += 1;
        }
        fill_arrays(row, table, one, three);
        change_record(top);
        for (char letter = 'A'; letter <= letter_b; letter++)
            if (choice == compare_letters(letter, 'C')) {
                choose(FIRST, &choice);
                strcpy(second, WORDS_3);
                two = run;
                number_shared = run;
            }
        two = two * one;
        one = two / three;
        two = 7 * (two - three) - one;
        lower_number(&one);
    }
    *found = (struct locals){.one = one, .two = two, .three = three, .choice = choice};
    memcpy(found->first, first, sizeof first);
    memcpy(found->second, second, sizeof second);
}

static void begin(struct locals *found)
{
    under = calloc(1, sizeof *under);
    top = calloc(1, sizeof *top);
    if (!under || !top)
        exit(2);
    top->next = under;
    top->kind = FIRST;
    top->variant.first.choice = THIRD;
    top->variant.first.number = 40;
    strcpy(top->variant.first.words, WORDS_RECORD);
    /* So it is in version 2.1: the published final value of this element counts from 10. */
    table[8][7] = 10;
    *found = (struct locals){.one = 0};
}

static void same(const char *what, int found, int expected)
{
    if (found != expected)
        wrong(what, found, expected);
}

static void check(const struct locals *found, int runs)
{
    same("the shared number", number_shared, 5);
    same("the flag", flag_shared, 1);
    same("the first letter", letter_a, 'A');
    same("the second letter", letter_b, 'B');
    same("an element of the row", row[8], 7);
    same("an element of the table", table[8][7], runs + 10);
    same("the next of the upper record", top->next == under, 1);
    same("the kind of the upper record", (int)top->kind, FIRST);
    same("the choice of the upper record", (int)top->variant.first.choice, THIRD);
    same("the number of the upper record", top->variant.first.number, 17);
    same("the words of the upper record", strcmp(top->variant.first.words, WORDS_RECORD), 0);
    same("the next of the lower record", under->next == under, 1);
    same("the kind of the lower record", (int)under->kind, FIRST);
    same("the choice of the lower record", (int)under->variant.first.choice, SECOND);
    same("the number of the lower record", under->variant.first.number, 18);
    same("the words of the lower record", strcmp(under->variant.first.words, WORDS_RECORD), 0);
    same("the first local number", found->one, 5);
    same("the second local number", found->two, 13);
    same("the third local number", found->three, 7);
    same("the local choice", (int)found->choice, SECOND);
    same("the first text", strcmp(found->first, WORDS_1), 0);
    same("the second text", strcmp(found->second, WORDS_2), 0);
}

static struct locals found;
static int done;

static void turns(long count)
{
    dhrystones(&found, done + 1, done + (int)count);
    done += (int)count;
}

int main(int argc, char **argv)
{
    double seconds = option(argc, argv, "seconds", 2, 0.01, 60);
    double warmup = option(argc, argv, "warmup", 0, 0, 5);
    double fixed = option(argc, argv, "runs", 0, 1, MOST);
    no_other_options(argc, argv, NAME);

    begin(&found);
    repeat_for(warmup, FIRST_TURNS, MOST_WARMUP, turns);
    struct timed all;
    if (fixed > 0)
        all = repeat_for(1e9, (long)fixed, (long)fixed, turns);
    else
        all = repeat_for(seconds, FIRST_TURNS, MOST, turns);
    check(&found, done);
    printf("%s\nruns: %ld\nseconds: %.6f\ndhrystones per second: %.1f\nchecked: yes\n", NAME, all.turns, all.seconds,
           (double)all.turns / all.seconds);
    return 0;
}
