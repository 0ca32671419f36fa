/*
 * detokenize.c - ids back to text: what each id is called, less what is to be skipped, and the
 * file's decoder over the names.
 *
 * Threads: an open tokenizer is read-only; a decoding belongs to one thread at a time.
 */
#include "base/alloc.h"
#include "tokenizer/tokenizer.h"

/*
 * The name of a token as decoders want it; false: there is none, or it is to be left out. Special
 * tokens are known by their names, so a piece that is there twice is one by either id.
 */
static bool name_of(const wg_tokenizer *tokenizer, int32_t id, bool skips_special, wgi_slice *name)
{
    const wgi_piece_table *vocabulary = &tokenizer->model.vocabulary;
    const wgi_added_token *added = wgi_added_tokens_find(&tokenizer->added, id);

    if (added) {
        *name = (wgi_slice){added->content, added->content_bytes};
        return !skips_special || !added->reads_special;
    }
    if (!wgi_piece_table_name(vocabulary, id, name)) return false;
    if (!skips_special) return true;
    added = wgi_added_tokens_find(&tokenizer->added, wgi_piece_table_find(vocabulary, *name));
    return !added || !added->special;
}

static wg_status collect(const wg_tokenizer *tokenizer, const int32_t *ids, size_t count,
                         bool skips_special, wgi_token_texts *texts, wg_error *err)
{
    wg_status status = WG_OK;

    texts->count = texts->text.count = 0;
    for (size_t i = 0; i < count; i++) {
        wgi_slice name;
        if (ids[i] < 0) {
            status = wgi_fail(err, WG_ERR_ARGUMENT, "token id %d at %zu is negative", ids[i], i);
            goto cleanup;
        }
        if (!name_of(tokenizer, ids[i], skips_special, &name)) continue;
        if (tokenizer->decoder.is_missing && texts->count)
            WGI_TRY(wgi_buf_append(&texts->text, " ", 1, err));
        WGI_TRY(wgi_token_texts_push(texts, name, err));
    }

cleanup:
    return status;
}

wg_status wg_tokenizer_decode(const wg_tokenizer *tokenizer, const int32_t *token_ids,
                              size_t token_count, int skip_special_tokens, wg_decoding *decoding,
                              wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_buf *text = NULL;

    if (!tokenizer || !decoding || (!token_ids && token_count))
        return wgi_fail(err, WG_ERR_ARGUMENT, "token ids or a place for their text is missing");
    decoding->text = NULL;
    decoding->text_bytes = 0;
    WGI_TRY(wgi_refusals_check(&tokenizer->decoder.refusals, err));
    if (!decoding->scratch) decoding->scratch = wgi_calloc(1, sizeof(wgi_decoder_scratch));
    wgi_decoder_scratch *scratch = decoding->scratch;
    if (!scratch) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the buffers of a decoding");
    WGI_TRY(collect(tokenizer, token_ids, token_count, skip_special_tokens != 0, &scratch->texts[0],
                    err));
    WGI_TRY(wgi_token_decoder_run(&tokenizer->decoder, scratch, &text, err));
    decoding->text = text->data;
    decoding->text_bytes = text->count;

cleanup:
    return status;
}

void wg_decoding_fini(wg_decoding *decoding)
{
    if (!decoding) return;
    if (decoding->scratch) wgi_decoder_scratch_fini(decoding->scratch);
    wgi_free(decoding->scratch);
    *decoding = (wg_decoding){0};
}
