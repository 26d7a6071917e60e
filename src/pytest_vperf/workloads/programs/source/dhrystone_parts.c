#include "dhrystone.h"
#include "measure.h"

#include <string.h>

APART void choose(enum choice from, enum choice *to)
{
    *to = from;
    if (!is_third(from))
        *to = FOURTH;
    switch (from) {
    case FIRST:
        *to = FIRST;
        break;
    case SECOND:
        *to = number_shared > 100 ? FIRST : FOURTH;
        break;
    case THIRD:
        *to = SECOND;
        break;
    case FOURTH:
        break;
    case FIFTH:
        *to = THIRD;
        break;
    }
}

APART void add_with_two(int a, int b, int *sum)
{
    int between = a + 2;
    *sum = b + between;
}

APART void fill_arrays(int *row, int (*table)[ROW], int at, int value)
{
    int place = at + 5;
    row[place] = value;
    row[place + 1] = row[place];
    row[place + 30] = place;
    for (int i = place; i <= place + 1; i++)
        table[place][i] = place;
    table[place][place - 1] += 1;
    table[place + 20][place] = row[place];
    number_shared = 5;
}

APART enum choice compare_letters(char a, char b)
{
    char first = a;
    char copied = first;
    if (copied != b)
        return FIRST;
    letter_a = first;
    return SECOND;
}

APART int compare_texts(const char *a, const char *b)
{
    int at = 2;
    char letter = 0;
    while (at <= 2)
        if (compare_letters(a[at], b[at + 1]) == FIRST) {
            letter = 'A';
            at += 1;
        }
    if (letter >= 'W' && letter < 'Z')
        at = 7;
    if (letter == 'R')
        return 1;
    if (strcmp(a, b) > 0) {
        at += 7;
        number_shared = at;
        return 1;
    }
    return 0;
}

APART int is_third(enum choice value)
{
    enum choice copied = value;
    return copied == THIRD;
}
