/*
 * test_minilm.c - the real all-MiniLM-L6-v2, packed, against float64 arithmetic on the stored
 * weights: 240 texts of 2 to 512 tokens (data/minilm-reference) and 7 at the model's own limit
 * (cases/minilm-embed.jsonl); max abs error of a component of the unit vectors 2e-5. And the law on
 * it: other bins, threads and order, same bytes. Every instruction set that this machine has, each
 * in a process of its own. LABELS: model
 */
#include "harness.h"

#include <math.h>
#include <stdbool.h>

#include "base/json.h"
#include "warpgroup/warpgroup.h"

#define DIM       384
#define TOLERANCE 2e-5
#define TEXTS_MAX 300

typedef struct texts {
    char *text[TEXTS_MAX];
    size_t bytes[TEXTS_MAX];
    float *want; /* [count, DIM] */
    size_t count;
} texts;

static wg_error err;

static char *slurp(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;

    *bytes = 0;
    if (!file) return NULL;
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    (void)fseek(file, 0, SEEK_SET);
    data = malloc((size_t)size + 1);
    if (data) {
        *bytes = fread(data, 1, (size_t)size, file);
        data[*bytes] = 0;
    }
    (void)fclose(file);
    return data;
}

/* {"text", "embedding"?} a line; vectors go to want. */
static bool read_line(texts *all, const char *line, size_t bytes)
{
    wgi_json json;
    wgi_slice key;
    wgi_buf text = {0};
    wg_status status = WG_OK;
    size_t i = 0;

    wgi_json_init(&json, line, bytes);
    WGI_TRY(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, "text")) {
            WGI_TRY(wgi_json_string(&json, &text, &err));
        } else if (wgi_slice_is(key, "embedding")) {
            WGI_TRY(wgi_json_array_begin(&json, &err));
            while (wgi_json_array_next(&json)) {
                double value = 0;
                WGI_TRY(wgi_json_double(&json, &value, &err));
                if (i < DIM) all->want[all->count * DIM + i++] = (float)value;
            }
        } else {
            WGI_TRY(wgi_json_skip(&json, &err));
        }
    }
    WGI_TRY(wgi_json_finish(&json, &err));
    all->text[all->count] = text.data ? text.data : strdup("");
    all->bytes[all->count++] = text.count;

cleanup:
    wgi_json_fini(&json);
    return status == WG_OK;
}

static texts load(const char *jsonl, const char *vectors)
{
    texts all = {.want = calloc(TEXTS_MAX * DIM, sizeof(float))};
    size_t bytes;
    char *lines = slurp(jsonl, &bytes);

    for (char *line = lines; line && *line && all.count < TEXTS_MAX;) {
        size_t length = strcspn(line, "\n");
        EXPECT(read_line(&all, line, length));
        line += length + (line[length] == '\n');
    }
    free(lines);
    if (vectors) {
        char *data = slurp(vectors, &bytes);
        uint32_t shape[2] = {0};
        EXPECT(data && bytes > 16 && memcmp(data, "WGMLREF1", 8) == 0);
        if (data) memcpy(shape, data + 8, sizeof(shape));
        EXPECT_EQ(shape[0], all.count);
        EXPECT_EQ(shape[1], DIM);
        EXPECT_EQ(bytes, 16 + all.count * DIM * sizeof(float));
        if (data && bytes == 16 + all.count * DIM * sizeof(float))
            memcpy(all.want, data + 16, bytes - 16);
        free(data);
    }
    EXPECT(all.count > 0);
    return all;
}

static void unload(texts *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->text[i]);
    free(all->want);
}

static void compare(const char *what, const texts *all, const float *got)
{
    double worst = 0;
    size_t where = 0;

    for (size_t i = 0; i < all->count * DIM; i++) {
        double error = fabs((double)got[i] - (double)all->want[i]);
        if (!(error <= worst)) {
            worst = error;
            where = i / DIM;
        }
    }
    fprintf(stderr, "  %s: %zu texts, max abs error %.2g (text %zu)\n", what, all->count, worst,
            where);
    EXPECT(worst <= TOLERANCE);
    EXPECT(worst > 0); /* two different computations never agree to the last bit */
}

static void check_law(const wg_model *model, const texts *all, const float *want)
{
    const char *reversed[TEXTS_MAX];
    size_t bytes[TEXTS_MAX];
    float *got = calloc(all->count * DIM, sizeof(float));

    for (size_t i = 0; i < all->count; i++) {
        reversed[i] = all->text[all->count - 1 - i];
        bytes[i] = all->bytes[all->count - 1 - i];
    }
    for (int run = 0; run < 3; run++) {
        wg_embed_options options = {.token_count_max = 512,
                                    .batch_tokens = (uint64_t[]){512, 1300, 8192}[run],
                                    .thread_count = (uint32_t[]){1, 2, 3}[run]};
        EXPECT_OK(wg_model_embed(model, reversed, bytes, all->count, got,
                                 all->count * DIM * sizeof(float), &options, &err));
        size_t different = 0;
        for (size_t i = 0; i < all->count; i++)
            different += memcmp(got + i * DIM, want + (all->count - 1 - i) * DIM, DIM * 4) != 0;
        EXPECT_EQ(different, 0);
    }
    /* Each alone. */
    for (size_t i = 0; i < all->count; i += 7) {
        wg_embed_options options = {.token_count_max = 512};
        EXPECT_OK(wg_model_embed(model, (const char *const *)&all->text[i], &all->bytes[i], 1, got,
                                 DIM * sizeof(float), &options, &err));
        EXPECT_EQ(memcmp(got, want + i * DIM, DIM * sizeof(float)), 0);
    }
    free(got);
}

static int check_isa(const char *path, wg_isa isa, const char *name)
{
    wg_model *model = NULL;
    texts own = load(WGT_DATA "/cases/minilm-embed.jsonl", NULL);
    texts many = load(WGT_DATA "/minilm-reference.jsonl", WGT_DATA "/minilm-reference.bin");
    float *got = calloc(TEXTS_MAX * DIM, sizeof(float));
    char what[64];

    wg_status status = wg_model_open(&model, &(wg_model_options){.path = path, .isa = isa}, &err);
    if (status == WG_ERR_BACKEND) {
        fprintf(stderr, "  skipped: %s\n", err.message);
        goto cleanup;
    }
    EXPECT_EQ(status, WG_OK);
    if (status != WG_OK) goto cleanup;
    EXPECT_OK(wg_model_embed(model, (const char *const *)own.text, own.bytes, own.count, got,
                             own.count * DIM * sizeof(float), NULL, &err));
    (void)snprintf(what, sizeof(what), "%s, own limit", name);
    compare(what, &own, got);
    EXPECT_OK(wg_model_embed(model, (const char *const *)many.text, many.bytes, many.count, got,
                             many.count * DIM * sizeof(float),
                             &(wg_embed_options){.token_count_max = 512}, &err));
    (void)snprintf(what, sizeof(what), "%s, 512", name);
    compare(what, &many, got);
    if (isa != WG_ISA_PLAIN) check_law(model, &many, got); /* plain: slow; test_job_law has it */

cleanup:
    wg_model_close(model);
    unload(&own);
    unload(&many);
    free(got);
    return wgt_result();
}

int main(int argc, char **argv)
{
    static const struct {
        wg_isa isa;
        const char *name;
    } all[] = {{WG_ISA_AVX512, "avx512"}, {WG_ISA_AVX2, "avx2"}, {WG_ISA_PLAIN, "plain"}};
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char path[512], command[1024];

    if (cache && *cache)
        (void)snprintf(path, sizeof(path), "%s/models/all-MiniLM-L6-v2", cache);
    else
        (void)snprintf(path, sizeof(path), "%s/.cache/warpgroup/models/all-MiniLM-L6-v2",
                       home ? home : "");
    (void)snprintf(command, sizeof(command), "%s/model.safetensors", path);
    FILE *weights = fopen(command, "rb");
    if (!weights) {
        fprintf(stderr, "skipped: the model all-MiniLM-L6-v2 is not in %s\n", path);
        return WGT_SKIP;
    }
    (void)fclose(weights);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (argc > 1 && strcmp(argv[1], all[i].name) == 0)
            return check_isa(path, all[i].isa, all[i].name);
        if (argc > 1) continue;
        (void)snprintf(command, sizeof(command), "\"%s\" %s", argv[0], all[i].name);
        EXPECT_EQ(system(command), 0);
    }
    return wgt_result();
}
