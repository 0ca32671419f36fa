/*
 * round.c - plans bins over a look-ahead and hands them out one by one.
 *
 *     backlog ─▶ look-ahead  [ a b c d e f g h ]     first-fit decreasing
 *                plan        bin 0: b f   bin 1: a c h   bin 2: d e   bin 3: g
 *                handed out  bin 0, bin 1, bin 2; then a new plan over g and what came since
 *
 * A plan lives for several bins, so packing costs little more than once a sequence. It is given
 * up when most of it has left and new sequences wait, since the last bins of a plan are the
 * emptiest and fill up in the next one. A sequence that was oldest in two plans running goes out
 * with the first bin of the second: none waits for ever.
 *
 * Refused: a plan for each bin over the whole look-ahead (its cost grows with the look-ahead), and
 * taking bins strictly in arrival order (next-fit leaves a fifth of each bin empty).
 *
 * Threads: packer only.
 */
#include "engine/round.h"

#include "base/alloc.h"

#include <string.h>

wg_status wgi_round_init(wgi_round *round, const wgi_pack_limits *limits, size_t tokens_max,
                         size_t capacity, wg_error *err)
{
    wg_status status = WG_OK;

    memset(round, 0, sizeof(*round));
    round->limits = *limits;
    round->tokens_max = tokens_max;
    round->capacity = capacity;
    round->bin_early = SIZE_MAX;
    round->records = wgi_calloc(capacity, sizeof(round->records[0]));
    round->lengths = wgi_calloc(capacity, sizeof(round->lengths[0]));
    round->items = wgi_calloc(capacity, sizeof(round->items[0]));
    round->bin_begin = wgi_calloc(capacity + 1, sizeof(round->bin_begin[0]));
    if (!round->records || !round->lengths || !round->items || !round->bin_begin) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to look %zu sequences ahead", capacity);
        goto cleanup;
    }
    WGI_TRY(wgi_packing_reserve(&round->packing, capacity, err));

cleanup:
    if (status != WG_OK) wgi_round_fini(round);
    return status;
}

void wgi_round_fini(wgi_round *round)
{
    wgi_free(round->records);
    wgi_free(round->lengths);
    wgi_free(round->items);
    wgi_free(round->bin_begin);
    wgi_packing_fini(&round->packing);
    memset(round, 0, sizeof(*round));
}

size_t wgi_round_bytes(size_t capacity)
{
    /* Six arrays of 4 bytes an entry and up to three of the next power of two, and the records. */
    return capacity * (sizeof(wgi_record *) + 6 * 4 + 2 * 3 * 4);
}

void wgi_round_drain(wgi_round *round, wgi_queue *queue)
{
    round->drained_count += wgi_queue_drain(queue, &round->backlog_first, &round->backlog_last);
}

uint64_t wgi_round_oldest(const wgi_round *round)
{
    if (round->oldest < round->count) return round->records[round->oldest]->serial;
    return round->backlog_first ? round->serial_next : UINT64_MAX;
}

/* Closes the gaps and takes in from the backlog; the order of arrival stays. */
static void refill(wgi_round *round)
{
    size_t kept = 0;

    for (size_t i = round->oldest; i < round->count; i++) {
        if (!round->records[i]) continue;
        round->records[kept] = round->records[i];
        round->lengths[kept++] = round->lengths[i];
    }
    while (round->backlog_first && kept < round->capacity &&
           (kept == 0 || round->token_count < round->tokens_max)) {
        wgi_record *record = round->backlog_first;

        round->backlog_first = record->next;
        if (!round->backlog_first) round->backlog_last = NULL;
        record->serial = round->serial_next++;
        round->records[kept] = record;
        round->lengths[kept++] = record->count;
        round->token_count += record->count;
    }
    round->count = kept;
    round->oldest = 0;
}

/* Lists the entries of each bin; the packer's answer is a bin for each entry. */
static void group_by_bin(wgi_round *round)
{
    const uint32_t *bin_of = round->packing.bin_of;
    uint32_t *begin = round->bin_begin;
    uint32_t sum = 0;

    memset(begin, 0, (round->bin_count + 1) * sizeof(begin[0]));
    for (size_t i = 0; i < round->count; i++)
        begin[bin_of[i]]++;
    for (size_t b = 0; b <= round->bin_count; b++) {
        uint32_t here = begin[b];
        begin[b] = sum;
        sum += here;
    }
    for (size_t i = 0; i < round->count; i++)
        round->items[begin[bin_of[i]]++] = (uint32_t)i;
    for (size_t b = round->bin_count; b > 0; b--)
        begin[b] = begin[b - 1];
    begin[0] = 0;
}

static bool plan(wgi_round *round)
{
    uint64_t oldest;
    bool was_oldest;

    refill(round);
    round->bin_count = 0;
    round->bin_next = 0;
    round->bin_early = SIZE_MAX;
    if (round->count == 0) return false;
    oldest = round->records[0]->serial;
    was_oldest = round->plan_tokens > 0 && oldest == round->oldest_in_plan;
    round->oldest_in_plan = oldest;
    round->plan_tokens = round->token_count;
    /* Lengths were checked at the door and memory is reserved: this cannot fail. */
    if (wgi_pack_first_fit(&round->packing, round->lengths, round->count, &round->limits, NULL) !=
        WG_OK)
        return false;
    round->bin_count = round->packing.bin_count;
    group_by_bin(round);
    if (was_oldest) round->bin_early = round->packing.bin_of[0];
    return true;
}

/* More than 9/10 full in tokens or in sequences. */
static bool is_full(const wgi_round *round, size_t b)
{
    size_t sequences = round->bin_begin[b + 1] - round->bin_begin[b], tokens = 0;

    if (round->limits.sequences && sequences * 10 > round->limits.sequences * 9) return true;
    for (size_t i = round->bin_begin[b]; i < round->bin_begin[b + 1]; i++)
        tokens += round->lengths[round->items[i]];
    return tokens * 10 > round->limits.tokens * 9;
}

static bool wants_plan(const wgi_round *round)
{
    if (round->bin_next == round->bin_count) return true;
    if (!round->backlog_first) return false;
    return round->token_count < round->plan_tokens / 4 || !is_full(round, round->bin_next);
}

/* Which bin of the plan goes next. */
static size_t next_bin(wgi_round *round)
{
    size_t early = round->bin_early;

    if (early != SIZE_MAX && early > round->bin_next) {
        round->bin_early = SIZE_MAX; /* when its own turn comes its list is found empty */
        return early;
    }
    round->bin_early = SIZE_MAX;
    return round->bin_next++;
}

static void move_out(wgi_round *round, wgi_queue *queue, size_t b, wgi_bin *bin,
                     uint32_t position_offset)
{
    for (size_t i = round->bin_begin[b]; i < round->bin_begin[b + 1]; i++) {
        wgi_record *record = round->records[round->items[i]];

        if (!record) continue;
        wgi_bin_append(bin, record->id, wgi_record_tokens(record), wgi_record_types(record),
                       record->count, position_offset);
        round->token_count -= record->count;
        round->records[round->items[i]] = NULL;
        wgi_queue_release(queue, record);
    }
    while (round->oldest < round->count && !round->records[round->oldest])
        round->oldest++;
}

bool wgi_round_cut(wgi_round *round, wgi_queue *queue, wgi_bin *bin, uint32_t position_offset)
{
    wgi_bin_clear(bin);
    wgi_round_drain(round, queue);
    while (bin->sequence_count == 0) {
        if (wants_plan(round) && !plan(round)) return false;
        move_out(round, queue, next_bin(round), bin, position_offset);
    }
    return true;
}
