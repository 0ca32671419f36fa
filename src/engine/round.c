/*
 * round.c - plans bins over a look-ahead and hands them out one by one.
 *
 *     backlog ─▶ look-ahead  [ a b c d e f g h ]     first-fit decreasing
 *                plan        bin 0: b f   bin 1: a c h   bin 2: d e   bin 3: g
 *                handed out  bin 0, bin 1, bin 2; then a new plan over g and what came since
 *
 * A plan lives for several bins, so packing costs little more than once a sequence. Its bins leave
 * in the order of their oldest sequence: none waits longer than a plan, and whoever writes rows in
 * input order gets them steadily. It is given up when most of it has left, or at a bin that is not
 * full, if new sequences wait to fill it.
 *
 * Refused: a plan for each bin over the whole look-ahead (its cost grows with the look-ahead), and
 * taking bins strictly in arrival order (next-fit leaves a fifth of each bin empty).
 *
 * Where classes or deadlines choose, sequences are taken in order of age instead, and the plan is
 * made anew. Threads: packer only.
 */
#include "engine/round.h"

#include "base/alloc.h"

#include <string.h>

static void drop_plan(wgi_round *round)
{
    round->bin_count = 0;
    round->bin_next = 0;
}

wg_status wgi_round_init(wgi_round *round, const wgi_pack_limits *limits, size_t tokens_max,
                         size_t capacity, wg_error *err)
{
    wg_status status = WG_OK;

    memset(round, 0, sizeof(*round));
    round->limits = *limits;
    round->tokens_max = tokens_max;
    round->capacity = capacity;
    drop_plan(round);
    round->records = wgi_calloc(capacity, sizeof(wgi_record *));
    round->lengths = wgi_calloc(capacity, sizeof(round->lengths[0]));
    round->items = wgi_calloc(capacity, sizeof(round->items[0]));
    round->bin_begin = wgi_calloc(capacity + 1, sizeof(round->bin_begin[0]));
    if (!round->records || !round->lengths || !round->items || !round->bin_begin) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to look %zu sequences ahead", capacity);
        goto cleanup;
    }
    WGI_TRY(wgi_packing_reserve(&round->packing, capacity, limits->squares > 0, err));

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

size_t wgi_round_bytes(size_t capacity, bool has_squares)
{
    /* The records, three arrays of the round's, and what the packing reserves. */
    return capacity * (sizeof(wgi_record *) + 3 * sizeof(uint32_t)) +
           wgi_packing_bytes(capacity, has_squares);
}

void wgi_round_limit(wgi_round *round, size_t tokens)
{
    if (tokens == round->limits.tokens) return;
    round->limits.tokens = tokens;
    drop_plan(round);
}

uint64_t wgi_round_oldest(const wgi_round *round)
{
    if (round->oldest < round->count) return round->records[round->oldest]->serial;
    return round->backlog.first ? round->serial_next : WGI_NEVER;
}

uint64_t wgi_round_arrival(const wgi_round *round)
{
    if (round->oldest < round->count) return round->records[round->oldest]->arrival_ns;
    return round->backlog.first ? round->backlog.first->arrival_ns : WGI_NEVER;
}

uint64_t wgi_round_deadline(const wgi_round *round, uint64_t from)
{
    uint64_t least = WGI_NEVER;

    if (round->deadline_count > 0) {
        for (size_t i = round->oldest; i < round->count; i++) {
            const wgi_record *record = round->records[i];
            if (record && record->deadline_ns >= from && record->deadline_ns < least)
                least = record->deadline_ns;
        }
    }
    return least;
}

void wgi_round_refill(wgi_round *round)
{
    size_t kept = 0;

    if (round->record_count < round->count) {
        for (size_t i = round->oldest; i < round->count; i++) {
            if (!round->records[i]) continue;
            round->records[kept] = round->records[i];
            round->lengths[kept++] = round->lengths[i];
        }
        round->count = kept;
        round->oldest = 0;
    }
    while (round->count < round->capacity &&
           (round->count == 0 || round->token_count < round->tokens_max)) {
        wgi_record *record = wgi_record_list_pop(&round->backlog);

        if (!record) break;
        record->serial = round->serial_next++;
        round->records[round->count] = record;
        round->lengths[round->count++] = record->count;
        round->record_count++;
        round->token_count += record->count;
        round->deadline_count += record->deadline_ns != WGI_NEVER;
    }
}

/* Numbers the bins by the oldest sequence of each, so that they leave in that order. */
static void order_by_age(wgi_round *round)
{
    uint32_t *bin_of = round->packing.bin_of;
    uint32_t *number = round->items; /* free until the bins are listed */
    uint32_t next = 0;

    memset(number, 0xFF, round->bin_count * sizeof(number[0]));
    for (size_t i = 0; i < round->count; i++) {
        if (number[bin_of[i]] == UINT32_MAX) number[bin_of[i]] = next++;
        bin_of[i] = number[bin_of[i]];
    }
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

/* A sequence above the limit of the day fills a bin of its own. */
static void pack(wgi_round *round)
{
    uint32_t limit = (uint32_t)round->limits.tokens;

    for (size_t i = 0; i < round->count; i++) {
        uint32_t count = round->records[i]->count;
        round->lengths[i] = count < limit ? count : limit;
    }
    /* Lengths were checked at the door and memory is reserved: this cannot fail. */
    if (wgi_pack_first_fit(&round->packing, round->lengths, round->count, &round->limits, NULL) !=
        WG_OK)
        round->packing.bin_count = 0;
}

static bool plan(wgi_round *round)
{
    wgi_round_refill(round);
    drop_plan(round);
    if (round->count == 0) return false;
    round->plan_tokens = round->token_count;
    pack(round);
    round->bin_count = round->packing.bin_count;
    if (round->bin_count == 0) return false;
    order_by_age(round);
    group_by_bin(round);
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
    if (!round->backlog.first) return false;
    return round->token_count < round->plan_tokens / 4 || !is_full(round, round->bin_next);
}

static void move_out(wgi_round *round, size_t entry, wgi_fill *fill)
{
    wgi_record *record = round->records[entry];

    round->records[entry] = NULL;
    round->record_count--;
    round->token_count -= record->count;
    round->deadline_count -= record->deadline_ns != WGI_NEVER;
    wgi_fill_append(fill, record);
}

static void skip_gone(wgi_round *round)
{
    while (round->oldest < round->count && !round->records[round->oldest])
        round->oldest++;
}

bool wgi_round_cut(wgi_round *round, wgi_fill *fill)
{
    while (fill->bin->sequence_count == 0) {
        size_t b;

        if (wants_plan(round) && !plan(round)) return false;
        b = round->bin_next++;
        for (size_t i = round->bin_begin[b]; i < round->bin_begin[b + 1]; i++) {
            if (round->records[round->items[i]]) move_out(round, round->items[i], fill);
        }
        skip_gone(round);
    }
    return true;
}

uint64_t wgi_round_take(wgi_round *round, wgi_fill *fill, uint64_t budget)
{
    uint64_t taken = 0;

    if (budget == 0) return 0;
    wgi_round_refill(round);
    drop_plan(round);
    for (size_t i = round->oldest; i < round->count && taken < budget; i++) {
        const wgi_record *record = round->records[i];

        if (fill->bin->token_count >= fill->tokens_max) break;
        if (!record || !wgi_fill_fits(fill, record->count)) continue;
        taken += record->count;
        move_out(round, i, fill);
    }
    skip_gone(round);
    return taken;
}

uint64_t wgi_round_take_due(wgi_round *round, wgi_fill *fill, uint64_t from, uint64_t until)
{
    uint64_t taken = 0;

    wgi_round_refill(round);
    if (round->deadline_count == 0) return 0;
    drop_plan(round);
    for (size_t i = round->oldest; i < round->count; i++) {
        const wgi_record *record = round->records[i];

        if (!record || record->deadline_ns < from || record->deadline_ns > until ||
            !wgi_fill_fits(fill, record->count))
            continue;
        taken += record->count;
        move_out(round, i, fill);
    }
    skip_gone(round);
    return taken;
}
