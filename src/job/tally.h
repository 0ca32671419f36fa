/*
 * tally.h - what a run counts: kept by the writer in input order, read by the report.
 */
#ifndef WGI_TALLY_H
#define WGI_TALLY_H

#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

#define WGI_HISTOGRAM_STEPS 24 /* 1, 2-3, 4-7, ... tokens */

typedef struct wgi_tally {
    /* documents */
    uint64_t documents, failed, truncated;
    uint64_t failed_by_kind[16];
    uint64_t tokens, longest;
    uint64_t histogram[WGI_HISTOGRAM_STEPS];
    /* what padding to the longest of each 8, in arrival order, would have computed */
    uint64_t batch_rows_of_8;
    uint32_t batch_count, batch_longest; /* of the batch that is open */
    /* bins */
    uint64_t bins, bin_tokens, rows_computed, rows_real, bins_least;
    uint64_t bins_failed; /* had no memory and were done in parts */
    double flops;         /* 2 x multiply-adds of linear layers and attention over real tokens */
    /* seconds of work, summed over threads */
    double read_s, tokenize_s, compute_s, pool_s, write_s;
    double run_s, first_row_s;
    /* how the run was set up */
    uint32_t token_count_max, thread_count, tokenizer_thread_count;
    const char *token_count_rule;
    uint64_t batch_tokens;
    const char *batch_tokens_rule;
    uint64_t memory_bytes; /* 0: no ceiling was given */
    uint64_t planned_bytes;
    uint64_t peak_bytes;
    const char *pooling, *pooling_rule, *normalize_rule;
    int normalize;
    uint64_t dim;
} wgi_tally;

/* One document that got its tokens. */
void wgi_tally_tokens(wgi_tally *tally, uint32_t token_count);
/* Share of padding that batches of 8 in arrival order would have had. */
double wgi_tally_padding_of_8(const wgi_tally *tally);
double wgi_tally_padding(const wgi_tally *tally);

#endif
