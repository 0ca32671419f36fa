/*
 * text_rules.c - from the text of one document to its token ids. What goes wrong with a document is
 * written into its entry, and the run goes on.
 *
 * Threads: any; an entry and a scratch belong to one.
 */
#include "job/text_rules.h"

#include <stdarg.h>
#include <stdio.h>

void wgi_text_scratch_fini(wgi_text_scratch *scratch)
{
    wg_encoding_fini(&scratch->encoding);
    wgi_buf_fini(&scratch->joined);
}

void wgi_entry_fail(wgi_entry *entry, wg_failure failure, const char *format, ...)
{
    va_list arguments;

    entry->failure = failure;
    va_start(arguments, format);
    (void)vsnprintf(entry->reason, sizeof(entry->reason), format, arguments);
    va_end(arguments);
}

/* Ready ids are limited as text is, but no special token is known in them. */
static void limit_ids(const wgi_text_rules *rules, wgi_entry *entry, wgi_ids *ids)
{
    size_t most = rules->encode.token_count_max;

    *ids = (wgi_ids){.token_ids = entry->ids, .count = entry->id_count};
    if (ids->count <= most) return;
    if (rules->encode.truncate == WG_TRUNCATE_ERROR) {
        wgi_entry_fail(entry, WG_FAILURE_TOO_LONG, "%zu tokens, the limit is %zu", ids->count,
                       most);
        return;
    }
    if (rules->encode.truncate == WG_TRUNCATE_TAIL) ids->token_ids += ids->count - most;
    ids->count = most;
    entry->is_truncated = true;
}

static wg_status no_tokenizer(const wgi_text_rules *rules, wgi_entry *entry, wg_error *err)
{
    if (rules->path)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: this file has no tokenizer that is read here: give records with token "
                        "ids (ids_field)",
                        rules->path);
    wgi_entry_fail(entry, WG_FAILURE_NO_TOKENS,
                   "a text without token ids, and no tokenizer was given");
    return WG_OK;
}

static wg_status encode_text(const wgi_text_rules *rules, wgi_entry *entry,
                             wgi_text_scratch *scratch, wgi_ids *ids, wg_error *err)
{
    wg_encoding *encoding = &scratch->encoding;
    const wgi_buf *text = &entry->text;
    wg_error why = {0};

    if (!rules->tokenizer) return no_tokenizer(rules, entry, err);
    if (rules->prompt_bytes) {
        wgi_buf *joined = &scratch->joined;
        joined->count = 0;
        wg_status status = wgi_buf_append(joined, rules->prompt, rules->prompt_bytes, err);
        if (status == WG_OK) status = wgi_buf_append(joined, text->data, text->count, err);
        if (status != WG_OK) return status;
        text = joined;
    }
    wg_status status = wg_tokenizer_encode(rules->tokenizer, text->data ? text->data : "",
                                           text->count, NULL, 0, &rules->encode, encoding, &why);
    if (status == WG_ERR_LIMIT) {
        wgi_entry_fail(entry, WG_FAILURE_TOO_LONG, "%s", why.message);
        return WG_OK;
    }
    if (status != WG_OK) {
        if (err) *err = why;
        return status;
    }
    entry->is_truncated = encoding->is_truncated;
    *ids = (wgi_ids){.token_ids = encoding->token_ids,
                     .type_ids = encoding->type_ids,
                     .count = encoding->token_count};
    return WG_OK;
}

/* An id that the embedding has no row for fails its document, not the run. */
static void check_ids(const wgi_text_rules *rules, wgi_entry *entry, const wgi_ids *ids)
{
    uint64_t rows = rules->row_count ? rules->row_count : (uint64_t)INT32_MAX + 1;

    for (size_t i = 0; i < ids->count; i++) {
        int id = ids->token_ids[i];

        if (id >= 0 && (uint64_t)id < rows) continue;
        if (rules->row_count)
            wgi_entry_fail(entry, WG_FAILURE_BAD_TOKEN,
                           "token id %d at %zu, the embedding has %llu rows", id, i,
                           (unsigned long long)rows);
        else
            wgi_entry_fail(entry, WG_FAILURE_BAD_TOKEN, "token id %d at %zu is negative", id, i);
        return;
    }
}

wg_status wgi_entry_encode(const wgi_text_rules *rules, wgi_entry *entry, wgi_text_scratch *scratch,
                           wgi_ids *ids, wg_error *err)
{
    wg_status status = WG_OK;

    *ids = (wgi_ids){0};
    if (entry->has_ids)
        limit_ids(rules, entry, ids);
    else
        status = encode_text(rules, entry, scratch, ids, err);
    entry->text.count = 0;
    if (status != WG_OK || entry->failure != WG_FAILURE_NONE) return status;
    if (ids->count == 0)
        wgi_entry_fail(entry, WG_FAILURE_NO_TOKENS, "%s",
                       entry->has_ids ? "the record has no token id"
                                      : "the tokenizer gives no token for this text");
    check_ids(rules, entry, ids);
    if (rules->run_count && ids->count > rules->run_count)
        wgi_entry_fail(entry, WG_FAILURE_TOO_LONG,
                       "%zu tokens, and a bin of this run holds %zu: %s, or a smaller max-length",
                       ids->count, rules->run_count, rules->run_advice);
    if (entry->failure == WG_FAILURE_NONE) entry->token_count = (uint32_t)ids->count;
    return WG_OK;
}
