/*
 * pattern_parts.h - what a compiled pattern is made of, for the two files that know it.
 */
#ifndef WGI_PATTERN_PARTS_H
#define WGI_PATTERN_PARTS_H

#include <stdbool.h>

#include "tokenizer/pattern.h"

#define WGI_PATTERN_CODE_MAX  4096
#define WGI_PATTERN_DEPTH_MAX 16
#define WGI_PATTERN_NO_MOST   UINT32_MAX /* {n,} */

/* One class of code points: the union of its parts, or all the others. */
typedef struct wgi_pattern_set {
    uint32_t categories;          /* bit k: those of category k */
    uint32_t with, without;       /* those with a flag of `with`; those without one of `without` */
    uint32_t first_range, ranges; /* in the pattern's ranges */
    bool is_negated;
    uint32_t ascii[4]; /* the answer for each of 128 code points */
} wgi_pattern_set;

typedef struct wgi_pattern_range {
    uint32_t first, last;
} wgi_pattern_range;

typedef enum wgi_pattern_op {
    WGI_PATTERN_SET,    /* one code point of set a */
    WGI_PATTERN_REPEAT, /* set a, min to max times, by mode */
    WGI_PATTERN_SPLIT,  /* go on at a; else at b */
    WGI_PATTERN_JUMP,   /* to a */
    WGI_PATTERN_LOOK,   /* what begins behind this must (not) match; then go on at a */
    WGI_PATTERN_MATCH   /* the end, also that of a LOOK */
} wgi_pattern_op;

typedef enum wgi_pattern_mode {
    WGI_PATTERN_GREEDY,
    WGI_PATTERN_LAZY,
    WGI_PATTERN_POSSESSIVE
} wgi_pattern_mode;

typedef struct wgi_pattern_code {
    wgi_pattern_op op;
    wgi_pattern_mode mode;
    uint32_t a, b;
    uint32_t min, max;
    bool is_negative; /* LOOK */
} wgi_pattern_code;

struct wgi_pattern {
    wgi_pattern_code *code;
    size_t code_count, code_capacity;
    wgi_pattern_set *sets;
    size_t set_count, set_capacity;
    wgi_pattern_range *ranges;
    size_t range_count, range_capacity;
};

/* Is it in the set, by the slow way that fills `ascii`? */
bool wgi_pattern_set_has(const wgi_pattern *pattern, const wgi_pattern_set *set,
                         uint32_t code_point, uint32_t flags);

#endif
