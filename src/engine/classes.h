/*
 * classes.h - which class's sequences go into the next bin.
 */
#ifndef WGI_CLASSES_H
#define WGI_CLASSES_H

#include "engine/round.h"

typedef struct wgi_bucket {
    double tokens;       /* what it holds */
    double tokens_most;  /* its size */
    double tokens_per_s; /* 0: filled by tokens_per_bin instead */
    double tokens_per_bin;
} wgi_bucket;

typedef struct wgi_classes {
    size_t count;
    wgi_round rounds[WG_ENGINE_CLASSES_MAX];
    wgi_bucket buckets[WG_ENGINE_CLASSES_MAX];
    size_t order[WG_ENGINE_CLASSES_MAX]; /* by priority */
    uint64_t filled_ns;                  /* when the buckets were last filled */
    uint64_t flush_serials[WG_ENGINE_CLASSES_MAX];
} wgi_classes;

wg_status wgi_classes_init(wgi_classes *classes, const wg_engine_class *options, size_t count,
                           const wgi_pack_limits *limits, size_t lookahead_tokens,
                           size_t lookahead_sequences, wg_error *err);
void wgi_classes_fini(wgi_classes *classes);
/* Bytes that init takes. */
size_t wgi_classes_bytes(size_t count, size_t lookahead_sequences, bool has_squares);

void wgi_classes_drain(wgi_classes *classes, wgi_queue *queue);
uint64_t wgi_classes_tokens(const wgi_classes *classes);
uint64_t wgi_classes_sequences(const wgi_classes *classes);
/* When the oldest came; WGI_NEVER: nothing waits. */
uint64_t wgi_classes_arrival(const wgi_classes *classes);
/* Earliest deadline that can still be met; WGI_NEVER: none. */
uint64_t wgi_classes_deadline(const wgi_classes *classes, uint64_t now);
/* All that waits now is to go out; is_flushing until it has. */
void wgi_classes_flush(wgi_classes *classes);
bool wgi_classes_is_flushing(const wgi_classes *classes);

/*
 * Fills an empty bin of at most fill->tokens_max tokens: what has a deadline before `urgent_until`,
 * then each class up to its bucket, then by priority. False when nothing waits.
 */
bool wgi_classes_cut(wgi_classes *classes, wgi_fill *fill, uint64_t urgent_until);

#endif
