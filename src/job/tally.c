/*
 * tally.c - counting of documents and tokens; see tally.h.
 */
#include "job/tally.h"

void wgi_tally_tokens(wgi_tally *tally, uint32_t token_count)
{
    unsigned step = 0;

    while ((token_count >> (step + 1)) && step + 1 < WGI_HISTOGRAM_STEPS)
        step++;
    tally->histogram[step]++;
    tally->tokens += token_count;
    if (token_count > tally->longest) tally->longest = token_count;

    if (token_count > tally->batch_longest) tally->batch_longest = token_count;
    if (++tally->batch_count == 8) {
        tally->batch_rows_of_8 += (uint64_t)8 * tally->batch_longest;
        tally->batch_count = tally->batch_longest = 0;
    }
}

double wgi_tally_padding_of_8(const wgi_tally *tally)
{
    uint64_t rows = tally->batch_rows_of_8 + (uint64_t)tally->batch_count * tally->batch_longest;

    return rows ? (double)(rows - tally->tokens) / (double)rows : 0;
}

double wgi_tally_padding(const wgi_tally *tally)
{
    if (tally->rows_computed <= tally->rows_real) return 0;
    return (double)(tally->rows_computed - tally->rows_real) / (double)tally->rows_computed;
}
