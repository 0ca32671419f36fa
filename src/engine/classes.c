/*
 * classes.c - logical channel prioritisation (3GPP TS 38.321, section 5.4.3.1) over bins.
 *
 * A bin is a transport block, a class a logical channel. In order of priority every class is first
 * served up to its token bucket, which fills at the rate that it was promised; what room is left is
 * given in strict priority. So the first class gets what it asks for, and the last one its bucket.
 * Before either, sequences whose deadline would pass if they missed this bin.
 *
 *     bin   [ due | class 0: bucket | class 1: bucket | class 2: bucket | class 0: rest | 1: rest ]
 *
 * While one class alone has something to send its round packs whole plans by first-fit decreasing;
 * only where classes meet is a bin filled in order of age. Refused: one look-ahead over all
 * classes, in which a plan made before an urgent arrival would have to be torn up.
 *
 * Threads: packer only.
 */
#include "engine/classes.h"

#include <string.h>

#define BUCKET_SHARE 32.0 /* of a bin, for a class without a rate */
#define BURST_MS     100u
#define NS_PER_S     1e9

static void bucket_init(wgi_bucket *bucket, const wg_engine_class *options, size_t bin_tokens)
{
    double burst_s = (double)(options && options->burst_ms ? options->burst_ms : BURST_MS) / 1e3;

    memset(bucket, 0, sizeof(*bucket));
    if (options && options->tokens_per_s) {
        bucket->tokens_per_s = (double)options->tokens_per_s;
        bucket->tokens_most = bucket->tokens_per_s * burst_s;
    } else {
        bucket->tokens_per_bin = (double)bin_tokens / BUCKET_SHARE;
        bucket->tokens_most = bucket->tokens_per_bin * BUCKET_SHARE;
    }
    bucket->tokens = bucket->tokens_most;
}

wg_status wgi_classes_init(wgi_classes *classes, const wg_engine_class *options, size_t count,
                           const wgi_pack_limits *limits, size_t lookahead_tokens,
                           size_t lookahead_sequences, wg_error *err)
{
    memset(classes, 0, sizeof(*classes));
    classes->count = count;
    for (size_t c = 0; c < count; c++) {
        size_t at = c;
        wg_status status =
            wgi_round_init(&classes->rounds[c], limits, lookahead_tokens, lookahead_sequences, err);

        if (status != WG_OK) {
            wgi_classes_fini(classes);
            return status;
        }
        bucket_init(&classes->buckets[c], options ? &options[c] : NULL, limits->tokens);
        for (; options && at > 0 && options[classes->order[at - 1]].priority > options[c].priority;
             at--)
            classes->order[at] = classes->order[at - 1];
        classes->order[at] = c;
    }
    return WG_OK;
}

void wgi_classes_fini(wgi_classes *classes)
{
    for (size_t c = 0; c < classes->count; c++)
        wgi_round_fini(&classes->rounds[c]);
    memset(classes, 0, sizeof(*classes));
}

size_t wgi_classes_bytes(size_t count, size_t lookahead_sequences, bool has_squares)
{
    return count * wgi_round_bytes(lookahead_sequences, has_squares);
}

void wgi_classes_drain(wgi_classes *classes, wgi_queue *queue)
{
    wgi_record_list *lists[WG_ENGINE_CLASSES_MAX];

    for (size_t c = 0; c < classes->count; c++)
        lists[c] = &classes->rounds[c].backlog;
    wgi_queue_drain(queue, lists);
    for (size_t c = 0; c < classes->count; c++) {
        if (wgi_round_has_deadline(&classes->rounds[c])) wgi_round_refill(&classes->rounds[c]);
    }
}

uint64_t wgi_classes_tokens(const wgi_classes *classes)
{
    uint64_t tokens = 0;

    for (size_t c = 0; c < classes->count; c++)
        tokens += wgi_round_tokens(&classes->rounds[c]);
    return tokens;
}

uint64_t wgi_classes_sequences(const wgi_classes *classes)
{
    uint64_t sequences = 0;

    for (size_t c = 0; c < classes->count; c++)
        sequences += wgi_round_sequences(&classes->rounds[c]);
    return sequences;
}

uint64_t wgi_classes_arrival(const wgi_classes *classes)
{
    uint64_t least = WGI_NEVER;

    for (size_t c = 0; c < classes->count; c++) {
        uint64_t arrival = wgi_round_arrival(&classes->rounds[c]);
        if (arrival < least) least = arrival;
    }
    return least;
}

uint64_t wgi_classes_deadline(const wgi_classes *classes, uint64_t now)
{
    uint64_t least = WGI_NEVER;

    for (size_t c = 0; c < classes->count; c++) {
        uint64_t deadline = wgi_round_deadline(&classes->rounds[c], now);
        if (deadline < least) least = deadline;
    }
    return least;
}

void wgi_classes_flush(wgi_classes *classes)
{
    for (size_t c = 0; c < classes->count; c++)
        classes->flush_serials[c] = wgi_round_youngest(&classes->rounds[c]);
}

bool wgi_classes_is_flushing(const wgi_classes *classes)
{
    for (size_t c = 0; c < classes->count; c++) {
        if (wgi_round_oldest(&classes->rounds[c]) < classes->flush_serials[c]) return true;
    }
    return false;
}

static void fill_buckets(wgi_classes *classes, uint64_t now)
{
    double seconds = now > classes->filled_ns && classes->filled_ns
                         ? (double)(now - classes->filled_ns) / NS_PER_S
                         : 0.0;

    classes->filled_ns = now;
    for (size_t c = 0; c < classes->count; c++) {
        wgi_bucket *bucket = &classes->buckets[c];

        bucket->tokens += bucket->tokens_per_s * seconds + bucket->tokens_per_bin;
        if (bucket->tokens > bucket->tokens_most) bucket->tokens = bucket->tokens_most;
    }
}

static bool cut_by_priority(wgi_classes *classes, wgi_fill *fill, uint64_t urgent_until)
{
    for (size_t k = 0; k < classes->count; k++) {
        size_t c = classes->order[k];
        classes->buckets[c].tokens -=
            (double)wgi_round_take_due(&classes->rounds[c], fill, fill->now, urgent_until);
    }
    for (size_t k = 0; k < classes->count; k++) {
        size_t c = classes->order[k];
        wgi_bucket *bucket = &classes->buckets[c];
        if (bucket->tokens < 1.0) continue;
        bucket->tokens -=
            (double)wgi_round_take(&classes->rounds[c], fill, (uint64_t)bucket->tokens);
    }
    for (size_t k = 0; k < classes->count; k++) {
        (void)wgi_round_take(&classes->rounds[classes->order[k]], fill,
                             WGI_NEVER); /* buckets are left as they are */
    }
    return fill->bin->sequence_count > 0;
}

bool wgi_classes_cut(wgi_classes *classes, wgi_fill *fill, uint64_t urgent_until)
{
    size_t busy = 0, only = 0;
    bool has_cut;

    for (size_t c = 0; c < classes->count; c++) {
        wgi_round_limit(&classes->rounds[c], fill->tokens_max);
        if (wgi_round_sequences(&classes->rounds[c]) == 0) continue;
        busy++;
        only = c;
    }
    if (busy == 0) return false;
    fill_buckets(classes, fill->now);
    if (busy > 1 || wgi_round_has_deadline(&classes->rounds[only]))
        has_cut = cut_by_priority(classes, fill, urgent_until);
    else
        has_cut = wgi_round_cut(&classes->rounds[only], fill);
    wgi_fill_end(fill);
    return has_cut;
}
