/*
 * piece_table.h - a hash from strings to token ids, whose hash is built byte by byte, so that all
 * prefixes of a word are looked up with one pass over it.
 */
#ifndef WGI_PIECE_TABLE_H
#define WGI_PIECE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

typedef struct wgi_piece {
    uint32_t offset, bytes; /* in pool */
    int32_t id;
} wgi_piece;

typedef struct wgi_piece_slot {
    uint32_t tag;   /* of the hash, to pass by most others without looking at their bytes */
    uint32_t index; /* of the piece + 1; 0: empty */
} wgi_piece_slot;

typedef struct wgi_piece_ref {
    int32_t id;
    uint32_t index;
} wgi_piece_ref;

/* Zero it to begin. */
typedef struct wgi_piece_table {
    wgi_buf pool;
    wgi_piece *pieces;
    size_t count, capacity;
    wgi_piece_slot *slots; /* [mask + 1], NULL when empty */
    size_t mask;
    size_t longest;       /* bytes of the longest piece */
    wgi_piece_ref *by_id; /* [count]; NULL: the pieces themselves are in the order of ids */
    size_t ordered;       /* pieces that this holds for; 0 since a piece was put in */
} wgi_piece_table;

#define WGI_PIECE_HASH 0xCBF29CE484222325u /* to begin with */

static inline uint64_t wgi_piece_hash_byte(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 0x100000001B3u; /* FNV-1a (Fowler, Noll, Vo) */
}

/* Puts a piece in; one that is there already takes the later id, as in any JSON object. */
wg_status wgi_piece_table_put(wgi_piece_table *table, wgi_slice piece, int32_t id, wg_error *err);
/* The same for a list by id: the piece is found by its later id, and known by either. */
wg_status wgi_piece_table_put_next(wgi_piece_table *table, wgi_slice piece, int32_t id,
                                   wg_error *err);
/* The id, or -1. `hash` is that of exactly these bytes. */
int32_t wgi_piece_table_probe(const wgi_piece_table *table, uint64_t hash, const char *bytes,
                              size_t count);
int32_t wgi_piece_table_find(const wgi_piece_table *table, wgi_slice piece);
/* Once all pieces are in, makes them known by id. Memory by count, never by id; twice is once. */
wg_status wgi_piece_table_order(wgi_piece_table *table, wg_error *err);
/* Two pieces of one id: WG_ERR_FORMAT that names id and both. The table is in order. */
wg_status wgi_piece_table_check_ids(const wgi_piece_table *table, wg_error *err);
/* The piece of an id; false: there is none. The table is in order. */
bool wgi_piece_table_name(const wgi_piece_table *table, int32_t id, wgi_slice *piece);
void wgi_piece_table_fini(wgi_piece_table *table);

#endif
