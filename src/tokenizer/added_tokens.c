/*
 * added_tokens.c - loading and matching of added tokens; see added_tokens.h.
 *
 * The idea: the tokens of a set are sorted, so the longest one at a place is found by narrowing a
 * range byte by byte; places are found by their first byte. Ids are given as Hugging Face
 * tokenizers gives them: the vocabulary's id for a token that is in it, else the next free one,
 * whatever the file says (a difference is logged). Refused: an Aho-Corasick automaton, whose tables
 * are larger than all the rest for sets in which nearly all tokens begin with one byte.
 *
 * Threads: read-only once loaded; a scan belongs to the caller.
 */
#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tokenizer/show.h"

/* ------------------------------------------------------------------------------- loading */

static wg_status read_token(wgi_slice item, wgi_added_token *token, wgi_buf *content,
                            int32_t *file_id, wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice id = {"", 0};
    wgi_json json;
    wgi_field fields[] = {
        {.name = "id", .kind = WGI_FIELD_RAW, .out = &id},
        {.name = "content", .kind = WGI_FIELD_TEXT, .out = content},
        {.name = "single_word", .kind = WGI_FIELD_BOOL, .out = &token->single_word},
        {.name = "lstrip", .kind = WGI_FIELD_BOOL, .out = &token->lstrip},
        {.name = "rstrip", .kind = WGI_FIELD_BOOL, .out = &token->rstrip},
        {.name = "normalized", .kind = WGI_FIELD_BOOL, .out = &token->normalized},
        {.name = "special", .kind = WGI_FIELD_BOOL, .out = &token->special},
    };

    WGI_TRY(wgi_fields_read(item, "added_tokens", fields, sizeof(fields) / sizeof(fields[0]),
                            refusals, err));
    wgi_json_init(&json, id.data, id.count);
    status = wgi_token_id(&json, "added_tokens", (wgi_slice){content->data, content->count},
                          file_id, err);
    wgi_json_fini(&json);

cleanup:
    return status;
}

/* Takes copies of the strings; a token of the same name is replaced. */
static wg_status keep_token(wgi_added_tokens *added, size_t same, const wgi_added_token *token,
                            const wgi_buf *name, wgi_slice content, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_added_token *to;
    char *name_copy = NULL, *content_copy = NULL;

    WGI_TRY(
        wgi_grow(&added->tokens, &added->capacity, added->count + 1, sizeof(*added->tokens), err));
    name_copy = wgi_memdup(name->data, name->count);
    content_copy = wgi_memdup(content.data, content.count);
    if (!name_copy || !content_copy) {
        wgi_free(name_copy);
        wgi_free(content_copy);
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an added token");
        goto cleanup;
    }
    to = &added->tokens[same];
    bool was_special = false;
    if (same == added->count) {
        added->count++;
    } else {
        was_special = to->special; /* once special, always special */
        wgi_free(to->name);
        wgi_free(to->content);
    }
    *to = *token;
    to->special |= was_special;
    to->name = name_copy;
    to->name_bytes = name->count;
    to->content = content_copy;
    to->content_bytes = content.count;

cleanup:
    return status;
}

typedef struct added_load {
    wgi_added_base base;
    wgi_refusals *refusals;
    wgi_piece_table names; /* name -> index in added->tokens */
    wgi_normalizer_scratch scratch;
    wgi_buf content;
    int64_t next_id;
} added_load;

static wg_status give_id(added_load *load, const wgi_added_tokens *added, size_t same,
                         wgi_slice name, int32_t file_id, int32_t *id, wg_error *err)
{
    int32_t known = wgi_piece_table_find(load->base.vocabulary, name);

    if (same < added->count) known = added->tokens[same].id;
    if (known < 0) {
        if (load->next_id > INT32_MAX)
            return wgi_fail(err, WG_ERR_LIMIT, "added_tokens: no id is left for \"%.*s\"",
                            WGI_SHOW(name));
        known = (int32_t)load->next_id++;
    }
    if (known != file_id)
        wgi_log(
            WG_LOG_WARNING,
            "tokenizer.json: the added token \"%.*s\" has token id %d, not the %d written there",
            WGI_SHOW(name), known, file_id);
    *id = known;
    return WG_OK;
}

static wg_status load_token(added_load *load, wgi_added_tokens *added, wgi_slice item,
                            wg_error *err)
{
    wg_status status = WG_OK;
    wgi_added_token token = {0};
    int32_t file_id = 0;

    WGI_TRY(read_token(item, &token, &load->content, &file_id, load->refusals, err));
    wgi_slice name = {load->content.data, load->content.count}, content = name;
    if (name.count == 0) goto cleanup; /* as in the original: passed over */
    int32_t known = wgi_piece_table_find(&load->names, name);
    size_t same = known >= 0 ? (size_t)known : added->count;
    WGI_TRY(give_id(load, added, same, name, file_id, &token.id, err));
    if (token.normalized) {
        WGI_TRY(wgi_normalize(load->base.normalizer, load->base.chars, name, true, &load->scratch,
                              &content, err));
        if (content.count == 0) {
            status = wgi_fail(err, WG_ERR_FORMAT,
                              "added_tokens: nothing is left of \"%.*s\" once it is normalised",
                              WGI_SHOW(name));
            goto cleanup;
        }
    }
    WGI_TRY(wgi_piece_table_put(&load->names, name, (int32_t)same, err));
    WGI_TRY(keep_token(added, same, &token, &load->content, content, err));
    if (token.id >= added->id_end) added->id_end = (int64_t)token.id + 1;

cleanup:
    return status;
}

static int by_content(const void *a, const void *b)
{
    const wgi_added_token *x = ((const wgi_added_ref *)a)->token;
    const wgi_added_token *y = ((const wgi_added_ref *)b)->token;
    size_t common = x->content_bytes < y->content_bytes ? x->content_bytes : y->content_bytes;
    int order = memcmp(x->content, y->content, common);

    if (order) return order;
    return x->content_bytes < y->content_bytes ? -1 : x->content_bytes > y->content_bytes;
}

static wg_status build_set(wgi_added_set *set, const wgi_added_tokens *added, bool normalized,
                           wg_error *err)
{
    size_t begins = 0;

    set->refs = wgi_calloc(added->count, sizeof(*set->refs));
    if (!set->refs)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu added tokens", added->count);
    for (size_t i = 0; i < added->count; i++) {
        const wgi_added_token *token = &added->tokens[i];
        if (token->normalized != normalized) continue;
        unsigned char first = (unsigned char)token->content[0];
        set->refs[set->count++].token = token;
        begins += !set->begins[first];
        set->begins[first] = 1;
        set->only_byte = (char)first;
    }
    set->has_only_byte = begins == 1;
    qsort(set->refs, set->count, sizeof(*set->refs), by_content);
    for (size_t i = 1; i < set->count; i++) {
        const wgi_added_token *token = set->refs[i].token, *before = set->refs[i - 1].token;
        if (by_content(&set->refs[i - 1], &set->refs[i]) == 0)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "added_tokens: \"%.*s\" and \"%.*s\" are the same once normalised",
                            WGI_SHOW(((wgi_slice){before->name, before->name_bytes})),
                            WGI_SHOW(((wgi_slice){token->name, token->name_bytes})));
    }
    return WG_OK;
}

/* Decoding knows special tokens by their text, which a normaliser may have made another's. */
static void note_special(const added_load *load, wgi_added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++) {
        wgi_added_token *token = &added->tokens[i];
        const wgi_slice content = {token->content, token->content_bytes};
        int32_t named =
            token->normalized ? wgi_piece_table_find(&load->names, content) : (int32_t)i;
        token->reads_special = named >= 0 && added->tokens[named].special;
    }
}

wg_status wgi_added_tokens_load(wgi_added_tokens *added, wgi_slice part, wgi_added_base base,
                                wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    added_load load = {.base = base, .refusals = refusals, .next_id = (int64_t)base.size};
    wgi_json json;
    wgi_slice item;

    wgi_json_init(&json, part.data, part.count);
    if (!wgi_part_is_null(part)) {
        WGI_TRY(wgi_json_array_begin(&json, err));
        while (wgi_json_array_next(&json)) {
            WGI_TRY(wgi_json_raw(&json, &item, err));
            WGI_TRY(load_token(&load, added, item, err));
        }
        WGI_TRY(wgi_json_finish(&json, err));
    }
    note_special(&load, added);
    WGI_TRY(wgi_added_tokens_finish(added, err));

cleanup:
    wgi_json_fini(&json);
    wgi_piece_table_fini(&load.names);
    wgi_normalizer_scratch_fini(&load.scratch);
    wgi_buf_fini(&load.content);
    return status;
}

wg_status wgi_added_tokens_put(wgi_added_tokens *added, wgi_slice content, int32_t id,
                               bool is_special, wg_error *err)
{
    const wgi_added_token token = {.id = id, .special = is_special, .reads_special = is_special};
    const wgi_buf name = {(char *)content.data, content.count, 0}; /* only read */

    if (id >= added->id_end) added->id_end = (int64_t)id + 1;
    return keep_token(added, added->count, &token, &name, content, err);
}

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const wgi_added_ref *)a)->token->id, y = ((const wgi_added_ref *)b)->token->id;

    return x < y ? -1 : x > y;
}

static wg_status order_ids(wgi_added_tokens *added, wg_error *err)
{
    added->by_id = wgi_calloc(added->count, sizeof(*added->by_id));
    if (!added->by_id)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu added tokens", added->count);
    for (size_t i = 0; i < added->count; i++)
        added->by_id[i].token = &added->tokens[i];
    qsort(added->by_id, added->count, sizeof(*added->by_id), by_id);
    return WG_OK;
}

const wgi_added_token *wgi_added_tokens_find(const wgi_added_tokens *added, int32_t id)
{
    size_t low = 0, high = added->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const wgi_added_token *token = added->by_id[middle].token;
        if (token->id == id) return token;
        if (token->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

wg_status wgi_added_tokens_finish(wgi_added_tokens *added, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(build_set(&added->raw, added, false, err));
    WGI_TRY(build_set(&added->normalized, added, true, err));
    WGI_TRY(order_ids(added, err));

cleanup:
    return status;
}

void wgi_added_tokens_fini(wgi_added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++) {
        wgi_free(added->tokens[i].name);
        wgi_free(added->tokens[i].content);
    }
    wgi_free(added->tokens);
    wgi_free(added->raw.refs);
    wgi_free(added->normalized.refs);
    wgi_free(added->by_id);
    *added = (wgi_added_tokens){0};
}

/* ------------------------------------------------------------------------------ matching */

/* First index in [low, high) whose byte at `depth` is >= byte; all share what is before it. */
static size_t lower_bound(const wgi_added_set *set, size_t low, size_t high, size_t depth,
                          unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const wgi_added_token *token = set->refs[middle].token;
        if (token->content_bytes <= depth || (unsigned char)token->content[depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const wgi_added_token *longest_at(const wgi_added_set *set, wgi_slice text, size_t at)
{
    const wgi_added_token *best = NULL;
    size_t low = 0, high = set->count;

    for (size_t depth = 0; at + depth < text.count && low < high; depth++) {
        unsigned byte = (unsigned char)text.data[at + depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
        /* The shortest of those that share a prefix comes first. */
        if (low < high && set->refs[low].token->content_bytes == depth + 1)
            best = set->refs[low].token;
    }
    return best;
}

static const wgi_added_token *next_match(wgi_added_scan *scan, size_t *begin)
{
    const wgi_added_set *set = scan->set;

    if (set->count == 0) return NULL;
    for (; scan->at < scan->text.count; scan->at++) {
        const char *from = scan->text.data + scan->at;
        if (set->has_only_byte) {
            from = memchr(from, (unsigned char)set->only_byte, scan->text.count - scan->at);
            if (!from) return NULL;
            scan->at = (size_t)(from - scan->text.data);
        } else if (!set->begins[(unsigned char)*from]) {
            continue;
        }
        const wgi_added_token *token = longest_at(set, scan->text, scan->at);
        if (!token) continue;
        *begin = scan->at;
        scan->at += token->content_bytes;
        return token;
    }
    return NULL;
}

static bool stands_alone(const wgi_added_scan *scan, size_t begin, size_t end)
{
    if (begin > 0) {
        size_t at = begin;
        uint32_t before = wgi_char_before(scan->text.data, &at);
        if (wgi_char_flags(scan->chars, before) & WGI_CHAR_WORD) return false;
    }
    if (end < scan->text.count) {
        uint32_t after = wgi_char_next(scan->text.data, &end);
        if (wgi_char_flags(scan->chars, after) & WGI_CHAR_WORD) return false;
    }
    return true;
}

static size_t space_begin(const wgi_added_scan *scan, size_t end)
{
    while (end > scan->begin) {
        size_t at = end;
        uint32_t before = wgi_char_before(scan->text.data, &at);
        if (!(wgi_char_flags(scan->chars, before) & WGI_CHAR_SPACE)) break;
        end = at;
    }
    return end;
}

static size_t space_end(const wgi_added_scan *scan, size_t begin)
{
    while (begin < scan->text.count) {
        size_t at = begin;
        uint32_t next = wgi_char_next(scan->text.data, &at);
        if (!(wgi_char_flags(scan->chars, next) & WGI_CHAR_SPACE)) break;
        begin = at;
    }
    return begin;
}

bool wgi_added_next(wgi_added_scan *scan, wgi_section *section)
{
    const wgi_added_token *token;
    size_t begin = 0;

    if (scan->has_token) {
        scan->has_token = false;
        *section = scan->token;
        return true;
    }
    while ((token = next_match(scan, &begin))) {
        size_t end = scan->at;
        if (scan->plain_specials && token->special) continue;
        if (token->single_word && !stands_alone(scan, begin, end)) continue;
        /* Blanks that the token before took are not taken again. */
        if (token->lstrip) begin = begin > scan->begin ? space_begin(scan, begin) : scan->begin;
        if (token->rstrip) end = space_end(scan, end);
        if (begin >= end) continue; /* all of it was taken by the token before */
        wgi_section text = {scan->begin, begin, -1};
        scan->token = (wgi_section){begin, end, token->id};
        scan->has_token = text.begin < text.end;
        *section = scan->has_token ? text : scan->token;
        scan->begin = end;
        return true;
    }
    *section = (wgi_section){scan->begin, scan->text.count, -1};
    scan->begin = scan->text.count;
    return section->begin < section->end;
}

wg_status wgi_added_sections(wgi_added_scan *scan, wgi_sections *sections, wg_error *err)
{
    wgi_section section;

    while (wgi_added_next(scan, &section)) {
        wg_status status = wgi_grow(&sections->items, &sections->capacity, sections->count + 1,
                                    sizeof(*sections->items), err);
        if (status != WG_OK) return status;
        sections->items[sections->count++] = section;
    }
    return WG_OK;
}
