/*
 * fuzz_tokenizer_text.c - bytes as a text, the first two for the limit and the tokenizer.
 * Properties: the same ids twice, with a warm and a cold cache; ids in range; the first N tokens
 * are the first N of all, the last N the last; the text repaired to UTF-8 gives the same ids.
 * Decoding, of those ids and of the bytes as ids: UTF-8, the same twice, an id below 0 refused.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

#define VOCABULARY                                                                                 \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##" \
    "\","                                                                                          \
    "\"max_input_chars_per_word\":20,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"##"  \
    "a\":4,"                                                                                       \
    "\"ab\":5,\"##ab\":6,\"##b\":7,\"e\":8,\"##e\":9,\".\":10,\"\\u4e2d\":11,\"##\\u0301\":12,"    \
    "\"\\ufffd\":13,"                                                                              \
    "\"aba\":14,\"1\":15,\"##1\":16,\"\\u00e9\":17}}"
#define ADDED(more)                                                                             \
    "\"added_tokens\":[{\"id\":2,\"content\":\"[SEP]\",\"single_word\":false,\"lstrip\":false," \
    "\"rstrip\":false,\"normalized\":false,\"special\":true}" more "]"
#define POST \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}"

#define LLAMA_SPLIT                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
/* Decoders. */
#define WORD_PIECE ",\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"
#define SUFFIX     ",\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"b\"}"
#define LETTERS                                                                             \
    ",\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true," \
    "\"use_regex\":true}"
/* Tokens grow by a pattern, among bytes that stand for a character. */
#define FUSED                                                                                      \
    ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"        \
    "\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+ " \
    "?\"},\"content\":\"\u00e9b\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":"     \
    "\"Strip\",\"content\":\" \",\"start\":1,\"stop\":2}]}"
#define METASPACE(scheme)                                                                          \
    ",\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"" scheme \
    "\",\"split\":true}"

/* Some bytes have no token and are dropped. */
#define BYTE_LEVEL                                                                                 \
    "{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"     \
    "\"\u0120\":3,\"\u0120a\":4,\"\u010a\":5,\"1\":6,\"11\":7,\".\":8,\"\u00c3\":9,\"\u00a9\":"    \
    "10,\"\u00c3\u00a9\":11,\"aba\":12,\"<s>\":13},\"merges\":[\"a b\",\"\u0120 a\",\"1 1\","      \
    "\"\u00c3 \u00a9\"]},\"added_tokens\":[{\"id\":13,\"content\":\"<s>\",\"single_word\":false,"  \
    "\"lstrip\":true,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"pre_tokenizer\":{" \
    "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"         \
    "\"" LLAMA_SPLIT "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","    \
    "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":false}]}" LETTERS "}"
#define MARKS(stages)                                                                            \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"byte_fallback\":true," \
    "\"vocab\":{\"?\":0,\"\u2581\":1,\"a\":2,\"b\":3,\"ab\":4,\"\u2581a\":5,\"\u2581\u2581\":"   \
    "6,\"<0xC3>\":7,\"<0xA9>\":8,\"e\":9,\"<0x0A>\":10},\"merges\":[[\"\u2581\",\"\u2581\"],"    \
    "[\"a\",\"b\"],[\"\u2581\",\"a\"]]}" stages "}"
#define UNIGRAM                                                                                   \
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0.0],[\"\u2581\",-2.0],"     \
    "[\"a\",-2.5],[\"b\",-2.5],[\"ab\",-5.0],[\"\u2581a\",-3.5],[\"ba\",-4.5],[\"\u00e9\","       \
    "-7.25]]},\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},{"        \
    "\"type\":\"NFKC\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},{\"type\":" \
    "\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]},\"pre_tokenizer\":{"      \
    "\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\",\"split\":"  \
    "true}" METASPACE("always") "}"

static const char *const files[] = {
    "{" VOCABULARY "," ADDED("") "," POST
                                 ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                                 "\"handle_chinese_chars\":true,\"strip_accents\":null,"
                                 "\"lowercase\":true},\"pre_tokenizer\":"
                                 "{\"type\":\"BertPreTokenizer\"}" WORD_PIECE "}",
    "{" VOCABULARY
    "," ADDED(",{\"id\":18,\"content\":\"b a\",\"single_word\":true,\"lstrip\":true,\"rstrip\":"
              "true,\"normalized\":true,\"special\":false}") ",\"normalizer\":{\"type\":\"NFC\"},"
                                                             "\"pre_tokenizer\":"
                                                             "{\"type\":\"Whitespace\"}" SUFFIX "}",
    "{" VOCABULARY "," POST ",\"normalizer\":{\"type\":\"NFKD\"}}",
    BYTE_LEVEL,
    MARKS(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
          "\"prepend\":\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
          "\"content\":\"\u2581\"}]}" FUSED),
    MARKS(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
          "\"prepend_scheme\":\"first\",\"split\":false}" METASPACE("first")),
    UNIGRAM,
};

#define FILE_COUNT (sizeof(files) / sizeof(files[0]))

static void need(int condition)
{
    if (!condition) abort();
}

static void encode(const wg_tokenizer *tokenizer, wgi_slice text, const wg_encode_options *options,
                   wg_encoding *encoding)
{
    wg_error err;

    need(wg_tokenizer_encode(tokenizer, text.data, text.count, NULL, 0, options, encoding, &err) ==
         WG_OK);
    for (size_t i = 0; i < encoding->token_count; i++)
        need(encoding->token_ids[i] >= 0 &&
             encoding->token_ids[i] < wgi_tokenizer_id_end(tokenizer));
}

static void need_same(const int32_t *a, const int32_t *b, size_t count)
{
    need(count == 0 || memcmp(a, b, count * sizeof(*a)) == 0);
}

static const wg_tokenizer *tokenizer_at(size_t which)
{
    static wg_tokenizer *tokenizers[FILE_COUNT];
    wg_error err;

    if (!tokenizers[which])
        need(wgi_tokenizer_parse(&tokenizers[which],
                                 (wgi_slice){files[which], strlen(files[which])}, &err) == WG_OK);
    return tokenizers[which];
}

/* The first tokens of all, and the last. */
static void check_limits(const wg_tokenizer *tokenizer, wgi_slice text, size_t limit,
                         const wg_encoding *all, wg_encoding *cut)
{
    wg_encode_options options = {.no_special_tokens = 1, .token_count_max = limit};
    size_t kept = all->token_count < limit ? all->token_count : limit;

    encode(tokenizer, text, &options, cut);
    need(cut->token_count == kept && cut->is_truncated == (kept < all->token_count));
    need_same(cut->token_ids, all->token_ids, kept);
    options.truncate = WG_TRUNCATE_TAIL;
    encode(tokenizer, text, &options, cut);
    need(cut->token_count == kept);
    if (kept) need_same(cut->token_ids, all->token_ids + (all->token_count - kept), kept);
}

/* Kept from input to input and from tokenizer to tokenizer, as a program does. */
static wg_decoding kept, fresh;

static void check_decoding(const wg_tokenizer *tokenizer, const int32_t *ids, size_t count)
{
    wg_error err;

    for (int skip = 0; skip < 2; skip++) {
        need(wg_tokenizer_decode(tokenizer, ids, count, skip, &kept, &err) == WG_OK);
        need(wg_tokenizer_decode(tokenizer, ids, count, skip, &fresh, &err) == WG_OK);
        need(kept.text_bytes == fresh.text_bytes);
        need(memcmp(kept.text, fresh.text, kept.text_bytes + 1) == 0);
        need(kept.text[kept.text_bytes] == '\0');
        need(wgi_utf8_check(kept.text, kept.text_bytes) == kept.text_bytes);
    }
}

/* Each byte an id: those of the vocabulary, some that no token has, and the highest. */
static void check_bytes_as_ids(const wg_tokenizer *tokenizer, const uint8_t *data, size_t count)
{
    int32_t *ids = malloc(count * sizeof(*ids)); /* no larger than it must be: ASan sees its end */
    size_t at = data[0] % count;
    wg_error err = {0};

    need(ids != NULL);
    for (size_t i = 0; i < count; i++)
        ids[i] = data[i] == 255 ? INT32_MAX : data[i];
    check_decoding(tokenizer, ids, count);
    ids[at] = -1 - ids[at];
    need(wg_tokenizer_decode(tokenizer, ids, count, data[1] & 1, &kept, &err) == WG_ERR_ARGUMENT);
    need(err.message[0]);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    /* Kept from input to input, as a program does. */
    static wg_encoding warm, cold, cut;
    static wgi_buf repaired;
    const wg_encode_options options = {.no_special_tokens = 1};
    wg_error err;

    if (count < 2) return 0;
    size_t which = data[0] % FILE_COUNT;
    const wg_tokenizer *tokenizer = tokenizer_at(which);
    wgi_slice text = {(const char *)data + 2, count - 2};
    if (data[1] & 64) { /* buffers that are no larger than they must be: ASan sees their ends */
        wg_encoding_fini(&cold);
        wg_encoding_fini(&cut);
        wgi_buf_fini(&repaired);
        wg_decoding_fini(&kept);
    }
    wg_decoding_fini(&fresh);
    encode(tokenizer, text, &options, &warm);
    /* Words are forgotten when an encoding goes to another tokenizer. */
    encode(tokenizer_at((which + 1) % FILE_COUNT), (wgi_slice){"", 0}, &options, &cold);
    encode(tokenizer, text, &options, &cold);
    need(warm.token_count == cold.token_count);
    need_same(warm.token_ids, cold.token_ids, cold.token_count);
    check_limits(tokenizer, text, 1 + data[1] % 64u, &cold, &cut);

    repaired.count = 0;
    need(wgi_utf8_repair(&repaired, text.data, text.count, NULL, &err) == WG_OK);
    text = (wgi_slice){repaired.count ? repaired.data : "", repaired.count};
    encode(tokenizer, text, &options, &cut);
    need(cut.token_count == cold.token_count);
    need_same(cut.token_ids, cold.token_ids, cut.token_count);

    check_decoding(tokenizer, cold.token_ids, cold.token_count);
    check_bytes_as_ids(tokenizer, data, count);
    return 0;
}
