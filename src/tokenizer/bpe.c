/*
 * bpe.c - encodes a word by merging pairs, the one of the least rank first, the leftmost of those.
 *
 *   "Ġthe" ─▶ Ġ t h e ─▶ Ġt h e ─▶ Ġt he ─▶ Ġthe
 *
 * The idea: a word begins as the ids of its characters (or bytes) in the place where its ids are
 * wanted, and shrinks there. Short words, nearly all, look for the least rank in a small array each
 * time. Long ones keep their places in a list, and the pairs that may be merged in runs: candidates
 * of one rank that were found from left to right, as nearly all are, chain behind each other, and a
 * heap holds only the first of each run. So a word takes n log r steps, where r is its number of
 * ranks rather than of characters: megabytes of one letter take time in proportion. A candidate
 * whose places have changed since is recognised when it comes up. Refused: runs for all words
 * (three times slower on short ones).
 *
 * Threads: read-only once loaded; scratch belongs to the caller.
 */
#include "tokenizer/bpe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/unicode.h"

#define SHORT_WORD 40 /* places; measured: about where runs begin to pay */
#define NO_RANK    UINT32_MAX
#define NONE       UINT32_MAX /* no place, no candidate */

static inline const wgi_merge *find(const wgi_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(hash >> 32) & bpe->mask;

    if (!bpe->merges) return NULL;
    for (;; at = (at + 1) & bpe->mask) {
        const wgi_merge *merge = &bpe->merges[at];
        if (merge->rank == NO_RANK) return NULL;
        if (merge->pair == pair) return merge;
    }
}

/* ------------------------------------------------------------------------------ merging */

static size_t merge_short(const wgi_bpe *bpe, int32_t *ids, size_t count)
{
    uint32_t ranks[SHORT_WORD];
    int32_t to[SHORT_WORD]; /* what ids[i], ids[i + 1] go into */

    for (size_t i = 0; i + 1 < count; i++) {
        const wgi_merge *merge = find(bpe, ids[i], ids[i + 1]);
        ranks[i] = merge ? merge->rank : NO_RANK;
        to[i] = merge ? merge->id : 0;
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = to[best];
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof(*ids));
        if (best + 1 < count) {
            memmove(ranks + best + 1, ranks + best + 2, (count - best - 2) * sizeof(*ranks));
            memmove(to + best + 1, to + best + 2, (count - best - 2) * sizeof(*to));
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < count; i++) {
            const wgi_merge *merge = find(bpe, ids[i], ids[i + 1]);
            ranks[i] = merge ? merge->rank : NO_RANK;
            to[i] = merge ? merge->id : 0;
        }
    }
    return count;
}

/* A long word while it is merged. */
typedef struct long_word {
    const wgi_bpe *bpe;
    int32_t *ids;
    wgi_word_scratch *scratch;
    uint32_t candidate_count;
    size_t run_count;
} long_word;

static bool is_before(const wgi_run *a, const wgi_run *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Puts a run where the heap's first stood. */
static void sink_first(wgi_run *heap, size_t count, wgi_run run)
{
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &run)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = run;
}

static wg_status begin_run(long_word *word, wgi_run run, wg_error *err)
{
    wgi_word_scratch *scratch = word->scratch;
    size_t at = word->run_count;
    wg_status status =
        wgi_grow(&scratch->heap, &scratch->heap_capacity, at + 1, sizeof(*scratch->heap), err);
    wgi_run *heap = scratch->heap;

    if (status != WG_OK) return status;
    for (; at > 0 && is_before(&run, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = run;
    word->run_count++;
    return WG_OK;
}

static wg_status offer(long_word *word, uint32_t left, uint32_t right, wg_error *err)
{
    const wgi_merge *merge = find(word->bpe, word->ids[left], word->ids[right]);
    wgi_candidate *candidates = word->scratch->candidates;

    if (!merge) return WG_OK;
    uint32_t fresh = word->candidate_count++;
    uint32_t tail = word->scratch->tails[merge->rank];
    candidates[fresh] = (wgi_candidate){left, NONE};
    word->scratch->tails[merge->rank] = fresh;
    if (tail == NONE || candidates[tail].at >= left)
        return begin_run(word, (wgi_run){merge->rank, left, fresh}, err);
    candidates[tail].next = fresh;
    return WG_OK;
}

/* The place of the next candidate, and its rank. */
static uint32_t take(long_word *word, uint32_t *rank)
{
    wgi_word_scratch *scratch = word->scratch;
    wgi_run run = scratch->heap[0];
    uint32_t at = run.at, next = scratch->candidates[run.first].next;

    *rank = run.rank;
    if (next == NONE) {
        if (scratch->tails[run.rank] == run.first) scratch->tails[run.rank] = NONE;
        run = scratch->heap[--word->run_count];
    } else {
        run.first = next;
        run.at = scratch->candidates[next].at;
    }
    sink_first(scratch->heap, word->run_count, run);
    return at;
}

/* Every merge takes a pair away and offers two, so there are fewer than 3 n candidates. */
static wg_status reserve(wgi_word_scratch *scratch, size_t places, uint32_t ranks, wg_error *err)
{
    wg_status status = WG_OK;
    size_t room;

    if (!wgi_mul(places, 3, &room) || room >= NONE)
        return wgi_fail(err, WG_ERR_LIMIT, "a word of %zu characters is too long", places);
    WGI_TRY(
        wgi_grow(&scratch->links, &scratch->link_capacity, places, sizeof(*scratch->links), err));
    WGI_TRY(wgi_grow(&scratch->candidates, &scratch->candidate_capacity, room,
                     sizeof(*scratch->candidates), err));
    WGI_TRY(
        wgi_grow(&scratch->tails, &scratch->tail_capacity, ranks, sizeof(*scratch->tails), err));
    while (scratch->tail_count < ranks)
        scratch->tails[scratch->tail_count++] = NONE;

cleanup:
    return status;
}

static wg_status merge_long(const wgi_bpe *bpe, int32_t *ids, size_t *count,
                            wgi_word_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    long_word word = {.bpe = bpe, .ids = ids, .scratch = scratch};
    size_t kept = 0, places = *count;

    WGI_TRY(reserve(scratch, places, bpe->rank_end, err));
    wgi_link *links = scratch->links;
    for (uint32_t i = 0; i < places; i++) {
        links[i] = (wgi_link){i ? i - 1 : NONE, i + 1 < places ? i + 1 : NONE};
        if (i + 1 < places) WGI_TRY(offer(&word, i, i + 1, err));
    }
    while (word.run_count > 0) {
        uint32_t rank, left = take(&word, &rank);
        uint32_t right = ids[left] < 0 ? NONE : links[left].behind;
        const wgi_merge *merge = right == NONE ? NULL : find(bpe, ids[left], ids[right]);
        if (!merge || merge->rank != rank) continue; /* one of the two has changed */
        uint32_t behind = links[right].behind, before = links[left].before;
        ids[left] = merge->id;
        ids[right] = -1;
        links[left].behind = behind;
        if (behind != NONE) links[behind].before = left;
        if (before != NONE) WGI_TRY(offer(&word, before, left, err));
        if (behind != NONE) WGI_TRY(offer(&word, left, behind, err));
    }
    for (size_t i = 0; i < places; i++)
        if (ids[i] >= 0) ids[kept++] = ids[i];
    *count = kept;

cleanup:
    if (status != WG_OK) scratch->tail_count = 0; /* they hold what was not taken */
    return status;
}

/* ---------------------------------------------------------------------------- characters */

/* A character that may become an unknown token, which waits to be fused with the next. */
typedef struct unit_run {
    const wgi_token_model *model;
    wgi_ids *ids;
    bool has_unknown;
    wg_error *err;
} unit_run;

static wg_status flush(unit_run *run)
{
    if (!run->has_unknown) return WG_OK;
    run->has_unknown = false;
    return wgi_ids_push(run->ids, run->model->bpe->unknown_id, run->err);
}

static wg_status put_known(unit_run *run, int32_t id)
{
    if (run->has_unknown) {
        wg_status status = flush(run);
        if (status != WG_OK) return status;
    }
    return wgi_ids_push(run->ids, id, run->err);
}

/* What is not in the vocabulary: its bytes, or the unknown token, or nothing. */
static wg_status put_missing(unit_run *run, wgi_slice unit)
{
    const wgi_bpe *bpe = run->model->bpe;
    wg_status status = WG_OK;
    size_t known = 0;

    while (bpe->falls_back_to_bytes && known < unit.count &&
           bpe->bytes[(unsigned char)unit.data[known]] >= 0)
        known++;
    if (bpe->falls_back_to_bytes && known == unit.count) {
        /* An unknown token that waits goes on waiting, as in the original. */
        for (size_t i = 0; i < unit.count; i++)
            WGI_TRY(wgi_ids_push(run->ids, bpe->bytes[(unsigned char)unit.data[i]], run->err));
        goto cleanup;
    }
    if (!bpe->has_unknown) goto cleanup;
    if (bpe->unknown_id < 0)
        return wgi_fail(run->err, WG_ERR_FORMAT,
                        "the text has a character without a token, and the tokenizer's unk_token "
                        "is not in its vocab");
    if (run->has_unknown && !bpe->fuses_unknown) WGI_TRY(flush(run));
    run->has_unknown = true;

cleanup:
    return status;
}

static wg_status put_bytes(unit_run *run, wgi_slice word)
{
    const wgi_bpe *bpe = run->model->bpe;
    wg_status status = WG_OK;

    for (size_t i = 0; i < word.count; i++) {
        unsigned char byte = (unsigned char)word.data[i];
        if (bpe->letters[byte] >= 0) {
            WGI_TRY(put_known(run, bpe->letters[byte]));
            continue;
        }
        char letter[4];
        wgi_slice unit = {letter, wgi_utf8_put(wgi_byte_letters[byte], letter)};
        WGI_TRY(put_missing(run, unit));
    }

cleanup:
    return status;
}

/* With the prefix of all but the first and the suffix of the last. */
static wg_status dress(const wgi_bpe *bpe, wgi_slice *unit, bool is_first, bool is_last,
                       wgi_buf *room, wg_error *err)
{
    wg_status status = WG_OK;

    if ((is_first || bpe->prefix.count == 0) && (!is_last || bpe->suffix.count == 0)) return WG_OK;
    room->count = 0;
    if (!is_first) WGI_TRY(wgi_buf_append(room, bpe->prefix.data, bpe->prefix.count, err));
    WGI_TRY(wgi_buf_append(room, unit->data, unit->count, err));
    if (is_last) WGI_TRY(wgi_buf_append(room, bpe->suffix.data, bpe->suffix.count, err));
    *unit = (wgi_slice){room->data, room->count};

cleanup:
    return status;
}

static wg_status put_chars(unit_run *run, wgi_slice word, wgi_buf *room)
{
    const wgi_bpe *bpe = run->model->bpe;
    bool is_plain = bpe->prefix.count == 0 && bpe->suffix.count == 0;
    wg_status status = WG_OK;

    for (size_t at = 0; at < word.count;) {
        size_t begin = at;
        uint32_t code_point = wgi_char_next(word.data, &at);
        wgi_slice unit = {word.data + begin, at - begin};
        int32_t id;
        if (is_plain && code_point < 128) {
            id = bpe->ascii[code_point];
        } else {
            WGI_TRY(dress(bpe, &unit, begin == 0, at == word.count, room, run->err));
            id = wgi_piece_table_find(&run->model->vocabulary, unit);
        }
        if (id >= 0) {
            WGI_TRY(put_known(run, id));
        } else {
            WGI_TRY(put_missing(run, unit));
        }
    }

cleanup:
    return status;
}

wg_status wgi_bpe_encode(const wgi_token_model *model, wgi_slice word, wgi_ids *ids,
                         wgi_word_scratch *scratch, wg_error *err)
{
    const wgi_bpe *bpe = model->bpe;
    wg_status status = WG_OK;
    unit_run run = {.model = model, .ids = ids, .err = err};
    size_t before = ids->count;

    if (bpe->ignores_merges) {
        int32_t id =
            wgi_piece_table_find(bpe->is_byte_level ? &bpe->raw : &model->vocabulary, word);
        if (id >= 0) return wgi_ids_push(ids, id, err);
    }
    if (bpe->is_byte_level) {
        WGI_TRY(put_bytes(&run, word));
    } else {
        WGI_TRY(put_chars(&run, word, &scratch->text));
    }
    WGI_TRY(flush(&run));
    size_t count = ids->count - before;
    if (count > SHORT_WORD) {
        WGI_TRY(merge_long(bpe, ids->items + before, &count, scratch, err));
    } else if (count > 1) {
        count = merge_short(bpe, ids->items + before, count);
    }
    ids->count = before + count;

cleanup:
    return status;
}
