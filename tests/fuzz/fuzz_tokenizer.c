/*
 * fuzz_tokenizer.c - bytes as a tokenizer.json. Properties: a refusal has a message; what opens
 * encodes a text of many scripts the same way twice, whole and kept to its first and last tokens,
 * with ids below the tokenizer's own bound, and decodes ids to UTF-8, the same twice, or says why
 * not.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static void need(int condition)
{
    if (!condition) abort();
}

static void encode(const wg_tokenizer *tokenizer, const wg_encode_options *options,
                   wg_encoding *encoding)
{
    static const char text[] = "The [SEP] caf\xC3\xA9 e\xCC\x81\xCC\xA7 \xE4\xB8\xAD\xE6\x96\x87 "
                               "<a> \xC4\xB0 \xFF x\0y [CLS] ##ing ok";
    wg_error err = {0};
    wg_status status =
        wg_tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, 0, options, encoding, &err);

    need(status == WG_OK || err.message[0]);
    for (size_t i = 0; i < encoding->token_count; i++)
        need(encoding->token_ids[i] >= 0 &&
             encoding->token_ids[i] < wgi_tokenizer_id_end(tokenizer));
}

static void check_decoding(const wg_tokenizer *tokenizer, const int32_t *ids, size_t count)
{
    static wg_decoding one; /* kept from input to input; the other one is not */

    for (int skip = 0; skip < 2; skip++) {
        wg_decoding two = {0};
        wg_error err = {0}, same = {0};
        wg_status status = wg_tokenizer_decode(tokenizer, ids, count, skip, &one, &err);

        need(status == wg_tokenizer_decode(tokenizer, ids, count, skip, &two, &same));
        if (status == WG_OK) {
            need(one.text_bytes == two.text_bytes);
            need(memcmp(one.text, two.text, one.text_bytes + 1) == 0);
            need(wgi_utf8_check(one.text, one.text_bytes) == one.text_bytes);
        } else {
            need(status == WG_ERR_UNSUPPORTED || status == WG_ERR_LIMIT);
            need(err.message[0] && strcmp(err.message, same.message) == 0);
        }
        wg_decoding_fini(&two);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static const int32_t first_ids[] = {0, 1, 2,  3,  4,  5,  6,   7,
                                        8, 9, 10, 11, 12, 13, 300, INT32_MAX};
    static const wg_encode_options options[] = {
        {0},
        {.token_count_max = 5},
        {.token_count_max = 5, .truncate = WG_TRUNCATE_TAIL},
        {.plain_specials = 1, .no_special_tokens = 1}};
    /* Kept from input to input, as a program does; a tokenizer that is new to them empties their
     * caches of words. */
    static wg_encoding one, two;
    wg_tokenizer *tokenizer = NULL;
    wg_error err = {0};

    if (wgi_tokenizer_parse(&tokenizer, (wgi_slice){(const char *)data, count}, &err) != WG_OK) {
        need(tokenizer == NULL && err.message[0]);
        return 0;
    }
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        encode(tokenizer, &options[i], &one);
        if (i == 0) encode(tokenizer, &options[i], &one); /* warm, and the other one cold */
        encode(tokenizer, &options[i], &two);
        need(one.token_count == two.token_count);
        need(one.token_count == 0 ||
             memcmp(one.token_ids, two.token_ids, one.token_count * sizeof(int32_t)) == 0);
    }
    check_decoding(tokenizer, one.token_ids, one.token_count);
    check_decoding(tokenizer, first_ids, sizeof(first_ids) / sizeof(first_ids[0]));
    wg_tokenizer_close(tokenizer);
    return 0;
}
