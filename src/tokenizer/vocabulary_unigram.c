/*
 * vocabulary_unigram.c - the parts of a tokenizer.json that a "t5" vocabulary of a GGUF file (XLM-
 * RoBERTa, multilingual-e5, bge-m3) leaves to be known; see vocabulary.h.
 *
 * The idea: scores and character map are written down as the JSON that the loaders read, so that
 * there is one reader of either. It costs a copy of the vocabulary while the file is opened.
 *
 * Blanks are always folded, as these families do. The key remove_extra_whitespaces is not asked:
 * converters that start from a tokenizer.json fill it with another setting.
 *
 * Threads: no state.
 */
#include "tokenizer/vocabulary_unigram.h"

#include <stdio.h>

static wg_status put_base64(wgi_buf *out, wgi_slice bytes, wg_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    wg_status status = WG_OK;

    for (size_t i = 0; i < bytes.count; i += 3) {
        uint32_t group = 0;
        char text[4];
        size_t left = bytes.count - i < 3 ? bytes.count - i : 3;
        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (j < left ? (unsigned char)bytes.data[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            text[j] = j <= left ? digits[group >> (18 - 6 * j) & 63] : '=';
        WGI_TRY(wgi_buf_append(out, text, 4, err));
    }

cleanup:
    return status;
}

wg_status wgi_unigram_normalizer(wgi_buf *out, const wgi_vocabulary *from, wg_error *err)
{
    wg_status status = WG_OK;

    if (from->charsmap.count == 0) return wgi_buf_reserve(out, 0, err); /* none */
    WGI_TRY(wgi_buf_text(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"", err));
    WGI_TRY(put_base64(out, from->charsmap, err));
    WGI_TRY(wgi_buf_text(out, "\"}", err));

cleanup:
    return status;
}

#define METASPACE(scheme)                                                                   \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"" scheme \
    "\",\"split\":true}"
#define SPLIT_AT_BLANKS(metaspace) \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," metaspace "]}"

const char *wgi_unigram_pre_tokenizer(const wgi_vocabulary *from)
{
    return from->adds_space_prefix == WGI_SWITCH_OFF ? SPLIT_AT_BLANKS(METASPACE("never"))
                                                     : SPLIT_AT_BLANKS(METASPACE("always"));
}

const char *wgi_unigram_decoder(const wgi_vocabulary *from)
{
    return from->adds_space_prefix == WGI_SWITCH_OFF ? METASPACE("never") : METASPACE("always");
}

/* Names that fill up the embedding's rows stand behind the last piece, and are none. */
static size_t piece_count(const wgi_vocabulary *from)
{
    size_t count = from->token_count;

    while (count > 1 && from->types && from->types[count - 1] == WGI_TOKEN_UNUSED)
        count--;
    return count;
}

wg_status wgi_unigram_model(wgi_buf *out, const wgi_vocabulary *from, wg_error *err)
{
    size_t count = piece_count(from);
    wg_status status = WG_OK;
    char number[64];

    if (!from->scores) return wgi_fail(err, WG_ERR_FORMAT, "tokenizer.ggml.scores is missing");
    if (from->unknown == WGI_NO_TOKEN || (uint64_t)from->unknown >= count)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "tokenizer.ggml.unknown_token_id is missing, or is no token in use");
    (void)snprintf(number, sizeof(number), "%lld", (long long)from->unknown);
    WGI_TRY(wgi_buf_text(out, "{\"type\":\"Unigram\",\"byte_fallback\":false,\"unk_id\":", err));
    WGI_TRY(wgi_buf_text(out, number, err));
    WGI_TRY(wgi_buf_text(out, ",\"vocab\":[", err));
    for (size_t i = 0; i < count; i++) {
        WGI_TRY(wgi_buf_text(out, i ? ",[" : "[", err));
        WGI_TRY(wgi_json_quote(out, from->tokens[i].data, from->tokens[i].count, err));
        WGI_TRY(wgi_buf_text(out, ",", err));
        WGI_TRY(wgi_json_put_double(out, from->scores[i], err));
        WGI_TRY(wgi_buf_text(out, "]", err));
    }
    WGI_TRY(wgi_buf_text(out, "]}", err));

cleanup:
    return status;
}
