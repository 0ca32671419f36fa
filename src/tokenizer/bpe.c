/*
 * bpe.c - encodes a word by merging pairs, the one of the least rank first, the leftmost of those.
 *
 *   "Ġthe" ─▶ Ġ t h e ─▶ Ġt h e ─▶ Ġt he ─▶ Ġthe
 *
 * The idea: a word begins as the ids of its characters (or bytes) in the place where its ids are
 * wanted, and shrinks there. Short words, nearly all, look for the least rank in a small array each
 * time; long ones keep the pairs in a heap and their places in a list, so a word of n characters
 * takes n log n steps. A pair in the heap whose places have changed since is recognised when it
 * comes up. Refused: the heap for all words (three times slower on short ones).
 *
 * Threads: read-only once loaded; scratch belongs to the caller.
 */
#include "tokenizer/bpe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/unicode.h"

#define SHORT_WORD 40 /* places; measured: about where the heap begins to pay */
#define NO_RANK    UINT32_MAX
#define NO_PLACE   UINT32_MAX

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

static bool is_before(const wgi_candidate *a, const wgi_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(wgi_candidate *heap, size_t *count, wgi_candidate item)
{
    size_t at = (*count)++;

    while (at > 0 && is_before(&item, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static wgi_candidate heap_pop(wgi_candidate *heap, size_t *count)
{
    wgi_candidate top = heap[0], last = heap[--*count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *count) break;
        if (child + 1 < *count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static void offer(const wgi_bpe *bpe, const int32_t *ids, wgi_candidate *heap, size_t *count,
                  uint32_t left, uint32_t right)
{
    const wgi_merge *merge = find(bpe, ids[left], ids[right]);

    if (merge) heap_push(heap, count, (wgi_candidate){merge->rank, left, merge->id});
}

/* Every merge takes a pair away and offers two, so 3 n places in the heap are enough. */
static wg_status merge_long(const wgi_bpe *bpe, int32_t *ids, size_t *count,
                            wgi_word_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    size_t pairs = 0, kept = 0, places = *count, room;

    if (places >= UINT32_MAX || !wgi_mul(places, 3, &room))
        return wgi_fail(err, WG_ERR_LIMIT, "a word of %zu characters is too long", places);
    WGI_TRY(
        wgi_grow(&scratch->links, &scratch->link_capacity, places, sizeof(*scratch->links), err));
    WGI_TRY(wgi_grow(&scratch->heap, &scratch->heap_capacity, room, sizeof(*scratch->heap), err));
    wgi_link *links = scratch->links;
    wgi_candidate *heap = scratch->heap;
    for (uint32_t i = 0; i < places; i++) {
        links[i] = (wgi_link){i ? i - 1 : NO_PLACE, i + 1 < places ? i + 1 : NO_PLACE};
        if (i + 1 < places) offer(bpe, ids, heap, &pairs, i, i + 1);
    }
    while (pairs > 0) {
        wgi_candidate top = heap_pop(heap, &pairs);
        uint32_t right = ids[top.at] < 0 ? NO_PLACE : links[top.at].behind;
        if (right == NO_PLACE) continue;
        const wgi_merge *merge = find(bpe, ids[top.at], ids[right]);
        if (!merge || merge->id != top.id) continue; /* one of the two has changed */
        uint32_t behind = links[right].behind, before = links[top.at].before;
        ids[top.at] = top.id;
        ids[right] = -1;
        links[top.at].behind = behind;
        if (behind != NO_PLACE) links[behind].before = top.at;
        if (before != NO_PLACE) offer(bpe, ids, heap, &pairs, before, top.at);
        if (behind != NO_PLACE) offer(bpe, ids, heap, &pairs, top.at, behind);
    }
    for (size_t i = 0; i < places; i++)
        if (ids[i] >= 0) ids[kept++] = ids[i];
    *count = kept;

cleanup:
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
