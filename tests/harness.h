/*
 * harness.h - expectations for unit tests. A test is a program: main() runs its cases and returns
 * wgt_result(). A failed expectation prints file, line and values, and the program goes on. Seeds:
 * WGT_SEED in the environment replays a random test; wgt_random() is SplitMix64 (Steele et al.
 * 2014).
 */
#ifndef WGT_HARNESS_H
#define WGT_HARNESS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WGT_SKIP 77

/* A sanitizer's own memory is most of the process: tests of memory have nothing to say then. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define WGT_HAS_TSAN 1
#else
#define WGT_HAS_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WGT_HAS_SANITIZER 1
#else
#define WGT_HAS_SANITIZER 0
#endif

static int wgt_failed;
static uint64_t wgt_seed;

static inline uint64_t wgt_random(void)
{
    uint64_t z = (wgt_seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [0, bound). */
static inline uint64_t wgt_below(uint64_t bound)
{
    return wgt_random() % bound;
}

/* Fixed seed unless WGT_SEED says otherwise; printed when a test fails. */
static inline void wgt_seed_set(uint64_t fixed)
{
    const char *given = getenv("WGT_SEED");
    wgt_seed = given ? strtoull(given, NULL, 0) : fixed;
}

static inline int wgt_result(void)
{
    if (wgt_failed) fprintf(stderr, "%d expectations failed\n", wgt_failed);
    return wgt_failed ? 1 : 0;
}

static inline void wgt_fail_at(const char *file, int line)
{
    wgt_failed++;
    fprintf(stderr, "%s:%d: ", file, line);
}

#define EXPECT(condition)                                 \
    do {                                                  \
        if (!(condition)) {                               \
            wgt_fail_at(__FILE__, __LINE__);              \
            fprintf(stderr, "expected %s\n", #condition); \
        }                                                 \
    } while (0)

#define EXPECT_EQ(got, want)                                                         \
    do {                                                                             \
        long long wgt_got = (long long)(got), wgt_want = (long long)(want);          \
        if (wgt_got != wgt_want) {                                                   \
            wgt_fail_at(__FILE__, __LINE__);                                         \
            fprintf(stderr, "%s is %lld, expected %lld\n", #got, wgt_got, wgt_want); \
        }                                                                            \
    } while (0)

#define EXPECT_TEXT(got, want)                                                                     \
    do {                                                                                           \
        const char *wgt_got = (got), *wgt_want = (want);                                           \
        if (!wgt_got || strcmp(wgt_got, wgt_want) != 0) {                                          \
            wgt_fail_at(__FILE__, __LINE__);                                                       \
            fprintf(stderr, "%s is \"%s\", expected \"%s\"\n", #got, wgt_got ? wgt_got : "(null)", \
                    wgt_want);                                                                     \
        }                                                                                          \
    } while (0)

/* The text holds the part. */
#define EXPECT_IN(text, part)                                                                \
    do {                                                                                     \
        const char *wgt_text = (text), *wgt_part = (part);                                   \
        if (!wgt_text || !strstr(wgt_text, wgt_part)) {                                      \
            wgt_fail_at(__FILE__, __LINE__);                                                 \
            fprintf(stderr, "\"%s\" does not hold \"%s\"\n", wgt_text ? wgt_text : "(null)", \
                    wgt_part);                                                               \
        }                                                                                    \
    } while (0)

/* A call that returns wg_status and fills `err`. */
#define EXPECT_OK(call)                                      \
    do {                                                     \
        wg_status wgt_status = (call);                       \
        if (wgt_status != WG_OK) {                           \
            wgt_fail_at(__FILE__, __LINE__);                 \
            fprintf(stderr, "%s: %s\n", #call, err.message); \
        }                                                    \
    } while (0)

#endif
