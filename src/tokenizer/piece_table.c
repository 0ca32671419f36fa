/*
 * piece_table.c - strings to ids; see piece_table.h.
 *
 * The idea: open addressing with linear probing over 8-byte slots that hold 32 bits of the hash,
 * so a miss, the common case of longest-match search, is decided in one cache line. The strings
 * lie end to end in one pool. Refused: a trie (a double array of a million pieces takes seconds to
 * build, and its walk is one cache miss a byte).
 *
 * Threads: read-only once filled; then any thread.
 */
#include "tokenizer/piece_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/show.h"

static uint64_t spread(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const char *bytes, size_t count)
{
    uint64_t hash = WGI_PIECE_HASH;

    for (size_t i = 0; i < count; i++)
        hash = wgi_piece_hash_byte(hash, bytes[i]);
    return hash;
}

static wgi_piece *probe(const wgi_piece_table *table, uint64_t hash, const char *bytes,
                        size_t count)
{
    if (!table->slots) return NULL;
    uint64_t mixed = spread(hash);
    uint32_t tag = (uint32_t)(mixed >> 32);
    for (size_t at = (size_t)mixed & table->mask;; at = (at + 1) & table->mask) {
        const wgi_piece_slot *slot = &table->slots[at];
        if (slot->index == 0) return NULL;
        if (slot->tag != tag) continue;
        wgi_piece *piece = &table->pieces[slot->index - 1];
        if (piece->bytes == count && memcmp(table->pool.data + piece->offset, bytes, count) == 0)
            return piece;
    }
}

static void insert(wgi_piece_table *table, uint32_t index, uint64_t hash)
{
    uint64_t mixed = spread(hash);
    size_t at = (size_t)mixed & table->mask;

    while (table->slots[at].index)
        at = (at + 1) & table->mask;
    table->slots[at] = (wgi_piece_slot){(uint32_t)(mixed >> 32), index + 1};
}

/* Keeps at least half of the slots empty. */
static wg_status make_room(wgi_piece_table *table, wg_error *err)
{
    size_t slots = table->slots ? table->mask + 1 : 0;

    if (slots / 2 > table->count) return WG_OK;
    slots = slots ? 2 * slots : 64;
    wgi_piece_slot *fresh = wgi_calloc(slots, sizeof(*fresh));
    if (!fresh) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a table of %zu slots", slots);
    wgi_free(table->slots);
    table->slots = fresh;
    table->mask = slots - 1;
    for (size_t i = 0; i < table->count; i++) {
        const wgi_piece *piece = &table->pieces[i];
        insert(table, (uint32_t)i, hash_of(table->pool.data + piece->offset, piece->bytes));
    }
    return WG_OK;
}

static wg_status append(wgi_piece_table *table, wgi_slice piece, int32_t id, uint64_t hash,
                        wg_error *err)
{
    wg_status status = WG_OK;

    if (table->count >= UINT32_MAX / 2 || table->pool.count > UINT32_MAX - piece.count ||
        piece.count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "more than 4 GiB of vocabulary");
    WGI_TRY(make_room(table, err));
    WGI_TRY(
        wgi_grow(&table->pieces, &table->capacity, table->count + 1, sizeof(*table->pieces), err));
    size_t offset = table->pool.count;
    WGI_TRY(wgi_buf_append(&table->pool, piece.data, piece.count, err));
    table->pieces[table->count] = (wgi_piece){(uint32_t)offset, (uint32_t)piece.count, id};
    insert(table, (uint32_t)table->count, hash);
    table->count++;
    if (piece.count > table->longest) table->longest = piece.count;

cleanup:
    return status;
}

wg_status wgi_piece_table_put(wgi_piece_table *table, wgi_slice piece, int32_t id, wg_error *err)
{
    uint64_t hash = hash_of(piece.data, piece.count);
    wgi_piece *there = probe(table, hash, piece.data, piece.count);

    table->ordered = 0;
    if (!there) return append(table, piece, id, hash, err);
    there->id = id;
    return WG_OK;
}

/* Of equal pieces the first one in the table is found, so that one takes the new id. */
wg_status wgi_piece_table_put_next(wgi_piece_table *table, wgi_slice piece, int32_t id,
                                   wg_error *err)
{
    uint64_t hash = hash_of(piece.data, piece.count);
    wgi_piece *there = probe(table, hash, piece.data, piece.count);

    table->ordered = 0;
    if (!there) return append(table, piece, id, hash, err);
    size_t first = (size_t)(there - table->pieces);
    wg_status status = append(table, piece, there->id, hash, err);
    if (status == WG_OK) table->pieces[first].id = id;
    return status;
}

int32_t wgi_piece_table_probe(const wgi_piece_table *table, uint64_t hash, const char *bytes,
                              size_t count)
{
    const wgi_piece *piece = probe(table, hash, bytes, count);

    return piece ? piece->id : -1;
}

int32_t wgi_piece_table_find(const wgi_piece_table *table, wgi_slice piece)
{
    return wgi_piece_table_probe(table, hash_of(piece.data, piece.count), piece.data, piece.count);
}

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const wgi_piece_ref *)a)->id, y = ((const wgi_piece_ref *)b)->id;

    return x < y ? -1 : x > y;
}

wg_status wgi_piece_table_order(wgi_piece_table *table, wg_error *err)
{
    size_t sorted = 1;

    if (table->ordered == table->count) return WG_OK;
    wgi_free(table->by_id);
    table->by_id = NULL;
    /* Files are written in the order of ids, so sorting is the exception. */
    while (sorted < table->count && table->pieces[sorted - 1].id <= table->pieces[sorted].id)
        sorted++;
    if (sorted >= table->count) {
        table->ordered = table->count;
        return WG_OK;
    }
    table->by_id = wgi_malloc(table->count * sizeof(*table->by_id)); /* pieces are larger */
    if (!table->by_id)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu ids", table->count);
    for (size_t i = 0; i < table->count; i++)
        table->by_id[i] = (wgi_piece_ref){table->pieces[i].id, (uint32_t)i};
    qsort(table->by_id, table->count, sizeof(*table->by_id), by_id);
    table->ordered = table->count;
    return WG_OK;
}

/* In the order of ids. */
static const wgi_piece *piece_at(const wgi_piece_table *table, size_t place)
{
    return &table->pieces[table->by_id ? table->by_id[place].index : place];
}

static int32_t id_at(const wgi_piece_table *table, size_t place)
{
    return table->by_id ? table->by_id[place].id : table->pieces[place].id;
}

bool wgi_piece_table_name(const wgi_piece_table *table, int32_t id, wgi_slice *piece)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (id_at(table, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->count || id_at(table, low) != id) return false;
    const wgi_piece *found = piece_at(table, low);
    *piece = (wgi_slice){table->pool.data + found->offset, found->bytes};
    return true;
}

wg_status wgi_piece_table_check_ids(const wgi_piece_table *table, wg_error *err)
{
    for (size_t i = 1; i < table->count; i++) {
        if (id_at(table, i) != id_at(table, i - 1)) continue;
        const wgi_piece *a = piece_at(table, i - 1), *b = piece_at(table, i);
        if (b < a) { /* named in the order of the file */
            const wgi_piece *other = a;
            a = b;
            b = other;
        }
        const wgi_slice names[2] = {{table->pool.data + a->offset, a->bytes},
                                    {table->pool.data + b->offset, b->bytes}};
        return wgi_fail(err, WG_ERR_FORMAT, "vocab: two tokens have id %d: \"%.*s\" and \"%.*s\"",
                        a->id, WGI_SHOW(names[0]), WGI_SHOW(names[1]));
    }
    return WG_OK;
}

void wgi_piece_table_fini(wgi_piece_table *table)
{
    wgi_buf_fini(&table->pool);
    wgi_free(table->pieces);
    wgi_free(table->slots);
    wgi_free(table->by_id);
    *table = (wgi_piece_table){0};
}
