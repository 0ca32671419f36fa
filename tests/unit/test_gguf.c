/*
 * test_gguf.c - every g* case as its index says, the frame of the format broken rule by rule, every
 * cut of a valid file, and each allocation failing in turn.
 *
 * LABELS: quick torture
 */
#include "base/alloc.h"
#include "model/gguf.h"
#include "model/gguf_names.h"

#include "json_lines.h"

#include "gguf_maker.h"

#define CASES WGT_DATA "/cases/"

/* --------------------------------------------------------------------------------- the g* cases */

typedef struct gguf_case {
    wgi_buf id, file, error; /* error: a word that the message may hold; empty: must load */
    bool may_load, has_rows;
} gguf_case;

/* {"error": ..} or {"load": true, ..} or {"any": [..]} */
static wg_status read_expect(wgi_json *json, gguf_case *one, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(wgi_json_object_begin(json, err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "error")) {
            WGI_TRY(wgi_json_string(json, &one->error, err));
        } else if (wgi_slice_is(key, "load")) {
            WGI_TRY(wgi_json_bool(json, &one->may_load, err));
        } else if (wgi_slice_is(key, "any")) {
            WGI_TRY(wgi_json_array_begin(json, err));
            while (wgi_json_array_next(json))
                WGI_TRY(read_expect(json, one, err));
        } else {
            one->has_rows = true;
            WGI_TRY(wgi_json_skip(json, err));
        }
    }

cleanup:
    return status;
}

static wg_status read_case(void *context, wgi_json *json, wgi_slice key, wg_error *err)
{
    gguf_case *one = context;

    if (wgi_slice_is(key, "id")) return wgi_json_string(json, &one->id, err);
    if (wgi_slice_is(key, "file")) return wgi_json_string(json, &one->file, err);
    if (wgi_slice_is(key, "expect")) return read_expect(json, one, err);
    return wgi_json_skip(json, err);
}

static void check_control(const wgi_gguf *gguf)
{
    const wgi_tensor *w = wgi_gguf_find(gguf, "w");
    float got[8] = {0};

    EXPECT(w && w->rank == 2 && w->shape[0] == 2 && w->shape[1] == 4);
    if (!w || wgi_tensor_count(w) != 8) return;
    wgi_tensor_widen(w, 0, 8, got);
    for (int i = 0; i < 8; i++)
        EXPECT(got[i] == (float)i);
    wgi_gguf_drop(gguf, w);
    EXPECT(wgi_gguf_header(gguf).count == 162);
    EXPECT_EQ(wgi_gguf_bytes(gguf), 224);
}

/* Types of values are the getters' business: these two load, and their description does not. */
static bool is_about_types(const gguf_case *one)
{
    return strncmp(one->id.data, "G-23", 4) == 0;
}

static void run_case(const gguf_case *one)
{
    wgi_gguf *gguf = NULL;
    wgi_gguf_fields fields;
    wg_error err = {0};
    char path[512];

    (void)snprintf(path, sizeof(path), CASES "%s", one->file.data);
    wg_status status = wgi_gguf_open(&gguf, path, &err);
    if (is_about_types(one)) {
        EXPECT_OK(status);
        if (status == WG_OK) status = wgi_gguf_fields_read(&fields, gguf, &err);
    }
    if (status == WG_OK) {
        if (!one->may_load) fprintf(stderr, "%s loads\n", one->file.data);
        EXPECT(one->may_load);
        if (one->has_rows) check_control(gguf);
    } else {
        EXPECT(one->error.count > 0);
        EXPECT(status == WG_ERR_FORMAT || status == WG_ERR_UNSUPPORTED);
        EXPECT_EQ(err.status, status);
        EXPECT_IN(err.message, one->error.count ? one->error.data : "(it should load)");
        EXPECT_IN(err.message, one->file.data);
        EXPECT(strstr(strstr(err.message, ".gguf") + 5, ".gguf") == NULL); /* named once */
    }
    wgi_gguf_close(gguf);
}

static void test_cases(void)
{
    wgt_lines lines = wgt_lines_open(CASES "gguf-index.jsonl");

    for (gguf_case one = {0}; wgt_lines_next(&lines, read_case, &one); one = (gguf_case){0}) {
        if (one.id.count && one.file.count) run_case(&one);
        wgi_buf_fini(&one.id);
        wgi_buf_fini(&one.file);
        wgi_buf_fini(&one.error);
    }
    EXPECT_EQ(wgt_lines_close(&lines), 32);
}

/* Where the index leaves a choice, this is ours; and whole sentences where they matter. */
static void test_choices(void)
{
    static const struct {
        const char *file, *part;
    } rows[] = {
        {"g10-nested.gguf", "key n: arrays nested more than 4 deep"},
        {"g17-big.gguf", "big-endian GGUF is not supported"},
        {"g18-ggjt.gguf", "the magic is 'tjgg' (GGJT"},
        {"g22-noname.gguf", "tensor 0 '': the name is empty"},
        {"g15-type99.gguf", "tensor 'w': type 99 unknown"},
        {"g25-cut.gguf", "truncated: tensor 'w' ends 16 bytes past"},
        {"g22-duptensor.gguf", "duplicate tensor 'w'"},
        {"g21-dupkey.gguf", "duplicate key general.architecture"},
        {"none.gguf", "none.gguf: No such file"},
    };
    wgi_gguf *gguf = NULL;
    char path[512];
    wg_error err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(path, sizeof(path), CASES "%s", rows[i].file);
        EXPECT(wgi_gguf_open(&gguf, path, &err) != WG_OK);
        EXPECT(gguf == NULL);
        EXPECT_IN(err.message, rows[i].part);
    }
    EXPECT_OK(wgi_gguf_open(&gguf, CASES "g22-longname.gguf", &err));
    if (gguf) {
        EXPECT_EQ(wgi_gguf_count(gguf), 1);
        EXPECT_EQ(strlen(wgi_gguf_at(gguf, 0)->name), 70);
        EXPECT_TEXT(wgi_gguf_path(gguf), CASES "g22-longname.gguf");
    }
    wgi_gguf_close(gguf);
    wgi_gguf_close(NULL);
}

/* ----------------------------------------------------------------------------------- the frame */

static void test_frame(void)
{
    wgi_buf file = {0};

    wgt_gguf_expect(&file, "truncated: 0 bytes are no GGUF file");
    wgt_gguf_bytes(&file, "\xFFxyz....", 8);
    wgt_gguf_expect(&file, "not a GGUF file: the magic is '?xyz'");
    wgt_gguf_bytes(&file, "lmgg....", 8);
    wgt_gguf_expect(&file, "(GGML, a format before GGUF)");
    wgt_gguf_bytes(&file, "version https://git-lfs.github.com/spec/v1\n", 43);
    wgt_gguf_expect(&file, "is a Git LFS pointer");
    wgt_gguf_begin(&file, 2, 0, 0);
    wgt_gguf_expect(&file, NULL);
    wgt_gguf_begin(&file, 3, 0, 0);
    wgt_gguf_expect(&file, NULL);
    wgt_gguf_begin(&file, 4, 0, 0);
    wgt_gguf_expect(&file, "GGUF version 4 is not supported");
    wgt_gguf_begin(&file, 0x02000000, 0, 0);
    wgt_gguf_expect(&file, "big-endian");
    wgt_gguf_begin(&file, 3, 1, 0);
    wgt_gguf_expect(&file, "tensor count 1 exceeds what the 0 bytes left");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_expect(&file, "key count 1 exceeds");
    /* The keys use up what the tensors would need. */
    wgt_gguf_begin(&file, 3, 1, 1);
    wgt_gguf_text(&file, "a", "0123456789");
    wgt_gguf_expect(&file, "tensor count 1 exceeds what the 0 bytes left");
    wgi_buf_fini(&file);
}

static void test_alignment(void)
{
    static const struct {
        uint64_t alignment, kind;
        const char *part;
    } rows[] = {
        {0, WGI_GGUF_U32, "alignment of 0 is not a power of two"},
        {24, WGI_GGUF_U32, "alignment of 24 is not a power of two"},
        {0x80000000, WGI_GGUF_U32, "alignment of 2147483648"},
        {0x80000000, WGI_GGUF_I32, "general.alignment: the alignment is not a positive integer"},
        {0x42000000, WGI_GGUF_F32, "general.alignment: the alignment is not a positive integer"},
        {1, WGI_GGUF_U32, NULL},
        {8, WGI_GGUF_I32, NULL},
        {32, WGI_GGUF_U32, NULL},
        {4096, WGI_GGUF_U32, NULL},
        {1u << 30, WGI_GGUF_U32, "truncated: tensor 'w' ends 12 bytes past"},
    };
    wgi_buf file = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wgt_gguf_begin(&file, 3, 1, 1);
        wgt_gguf_key(&file, "general.alignment", rows[i].kind);
        wgt_gguf_number(&file, rows[i].alignment, 4);
        wgt_gguf_tensor(&file, "w", 1, (uint64_t[]){3}, 0, 0);
        wgt_gguf_align(&file, rows[i].part ? 32 : (size_t)rows[i].alignment);
        wgt_gguf_zeros(&file, 12);
        wgt_gguf_expect(&file, rows[i].part);
    }
    wgi_buf_fini(&file);
}

/* A valid file cut anywhere is refused, and says that it is truncated. */
static void test_every_cut(void)
{
    size_t count = 0;
    char *bytes = wgt_slurp(CASES "g01-valid.gguf", &count);
    wgi_buf file = {0};

    for (size_t kept = 0; kept < count; kept++) {
        wgt_gguf_bytes(&file, bytes, kept);
        wgt_gguf_expect(&file, "truncated");
    }
    wgt_gguf_bytes(&file, bytes, count);
    wgt_gguf_expect(&file, NULL);
    wgi_buf_fini(&file);
    free(bytes);
}

/* Names are found at any number of keys and tensors, and only those. */
static void test_many_names(void)
{
    enum { COUNT = 2000 };
    wgi_gguf *gguf = NULL;
    wgi_buf file = {0};
    char name[64];
    wgi_map map;
    wg_error err;

    wgt_gguf_begin(&file, 3, COUNT, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "k%" PRIu64, i * 7919 % COUNT);
        wgt_gguf_count(&file, name, i);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "t%" PRIu64, i * 7919 % COUNT);
        wgt_gguf_tensor(&file, name, 0, NULL, 0, 32 * i);
    }
    wgt_gguf_align(&file, 32);
    wgt_gguf_zeros(&file, (size_t)32 * COUNT);
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    for (uint64_t i = 0; gguf && i < COUNT; i++) {
        uint64_t value = COUNT;
        (void)snprintf(name, sizeof(name), "k%" PRIu64, i * 7919 % COUNT);
        EXPECT_OK(wgi_gguf_uint(gguf, name, &value, &err));
        EXPECT_EQ(value, i);
        name[0] = 't';
        EXPECT(wgi_gguf_find(gguf, name) == wgi_gguf_at(gguf, i));
        name[0] = 'x';
        EXPECT(!wgi_gguf_has(gguf, name) && !wgi_gguf_find(gguf, name));
    }
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
}

/* ------------------------------------------------------------------------------------- torture */

static void torture(const char *path)
{
    for (long nth = 1;; nth++) {
        wgi_gguf *gguf = NULL;
        wg_error err;

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_gguf_open(&gguf, path, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 5); /* else the hook was never in the way */
            wgi_gguf_close(gguf);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(gguf == NULL);
        if (status != WG_ERR_NO_MEMORY) return;
    }
}

int main(void)
{
    test_cases();
    test_choices();
    test_frame();
    test_alignment();
    test_every_cut();
    test_many_names();
    torture(CASES "g01-valid.gguf");
    torture(CASES "tiny-llama.gguf");
    return wgt_result();
}
