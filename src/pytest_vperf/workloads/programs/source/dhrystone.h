/* The data of Dhrystone: R. P. Weicker, "Dhrystone: a synthetic systems programming benchmark", CACM 27(10), 1984, and
 * version 2.1, SIGPLAN Notices 23(8), 1988. Written anew from the published mix of statements, types and operands. */
#ifndef VPERF_DHRYSTONE_H
#define VPERF_DHRYSTONE_H

enum choice { FIRST, SECOND, THIRD, FOURTH, FIFTH };

typedef char text[31];

/* A record with variants, of which the first is used; a block assignment moves it. */
struct record {
    struct record *next;
    enum choice kind;
    union {
        struct {
            enum choice choice;
            int number;
            text words;
        } first;
        struct {
            enum choice choice;
            text words;
        } second;
        struct {
            char one, other;
        } third;
    } variant;
};

enum { ROW = 50 };

extern struct record *top;
extern int number_shared, flag_shared;
extern char letter_a, letter_b;

/* Eleven procedures and functions, as many as the original has; the last six have a source file of their own. */
void change_record(struct record *of);
void lower_number(int *number);
void follow(struct record **to);
void set_flag(void);
void clear_flag(void);

void choose(enum choice from, enum choice *to);
void add_with_two(int a, int b, int *sum);
void fill_arrays(int *row, int (*table)[ROW], int at, int value);
enum choice compare_letters(char a, char b);
int compare_texts(const char *a, const char *b);
int is_third(enum choice value);

#endif
