/*
 * test_families.c - the whole road for one small model of every family of encoders: from the text
 * to the sentence vector, against what the original gives in float64 (tests/data); all texts at
 * once and each alone in a small bin, byte for byte; and the most tokens that a text may have.
 */
#include <math.h>

#include "base/json.h"
#include "harness.h"
#include "temporary.h"
#include "warpgroup/warpgroup.h"

#define TEXTS_MAX 32

typedef struct texts {
    char *text[TEXTS_MAX]; /* NULL: only ids, not a text */
    size_t bytes[TEXTS_MAX];
    double *want[TEXTS_MAX]; /* of length 1 */
    size_t count;
} texts;

static wg_error err;

static void read_line(texts *all, const char *line, size_t bytes)
{
    wgi_json json;
    wgi_slice key;
    wgi_buf text = {0};

    wgi_json_init(&json, line, bytes);
    EXPECT_OK(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, "text")) {
            EXPECT_OK(wgi_json_string(&json, &text, &err));
            all->text[all->count] = strdup(text.data ? text.data : "");
            all->bytes[all->count] = text.count;
        } else {
            EXPECT_OK(wgi_json_skip(&json, &err));
        }
    }
    EXPECT_OK(wgi_json_finish(&json, &err));
    all->count++;
    wgi_buf_fini(&text);
}

static uint32_t take_u32(const char **at)
{
    uint32_t value;

    memcpy(&value, *at, sizeof(value));
    *at += sizeof(value);
    return value;
}

/* Texts and vectors of a folder; the format is that of tools/make_tiny_models.py. */
static texts read_texts(const char *folder, uint32_t *dim)
{
    texts all = {.count = 0};
    char path[600];
    size_t bytes;

    (void)snprintf(path, sizeof(path), "%s/reference.jsonl", folder);
    char *lines = wgt_slurp(path, &bytes);
    for (char *line = lines; *line && all.count < TEXTS_MAX;) {
        char *end = strchr(line, '\n');
        read_line(&all, line, (size_t)(end - line));
        line = end + 1;
    }
    free(lines);

    (void)snprintf(path, sizeof(path), "%s/reference.bin", folder);
    char *data = wgt_slurp(path, &bytes);
    const char *at = data + 8;
    EXPECT(memcmp(data, "WGTBREF2", 8) == 0);
    uint32_t layers = take_u32(&at), hidden = take_u32(&at);
    *dim = take_u32(&at);
    EXPECT_EQ(take_u32(&at), all.count);
    uint32_t flags = take_u32(&at);
    for (size_t t = 0; t < all.count; t++) {
        size_t tokens = take_u32(&at);
        at += tokens * 4 + (tokens * (layers + 1 + flags % 2) + 6) * hidden * 8 + *dim * 8ul;
        all.want[t] = malloc(*dim * sizeof(double));
        memcpy(all.want[t], at, *dim * sizeof(double));
        at += *dim * sizeof(double);
    }
    EXPECT(at == data + bytes);
    free(data);
    return all;
}

static void check_folder(const char *name, uint32_t limit)
{
    char folder[512];
    uint32_t dim = 0;
    wg_model *model = NULL;
    const char *kept[TEXTS_MAX];
    size_t bytes[TEXTS_MAX], which[TEXTS_MAX], count = 0;
    double worst = 0;
    int is_same = 1;

    (void)snprintf(folder, sizeof(folder), WGT_DATA "/%s", name);
    texts all = read_texts(folder, &dim);
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = folder}, &err));
    if (!model) exit(1);
    EXPECT_EQ(wg_model_describe(model)->dim, dim);
    EXPECT_EQ(wg_model_describe(model)->position_count, limit);
    for (size_t t = 0; t < all.count; t++)
        if (all.text[t]) {
            which[count] = t;
            bytes[count] = all.bytes[t];
            kept[count++] = all.text[t];
        }
    EXPECT(count > 1);
    float *got = malloc(count * dim * sizeof(float)), *alone = malloc(dim * sizeof(float));
    EXPECT_OK(
        wg_model_embed(model, kept, bytes, count, got, count * dim * sizeof(float), NULL, &err));
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < dim; j++) {
            double error = fabs((double)got[i * dim + j] - all.want[which[i]][j]);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
        }
        EXPECT_OK(wg_model_embed(model, &kept[i], &bytes[i], 1, alone, dim * sizeof(float),
                                 &(wg_embed_options){.token_count_max = limit}, &err));
        is_same &= memcmp(alone, got + i * dim, dim * sizeof(float)) == 0;
    }
    EXPECT(is_same);
    EXPECT(worst <= 2e-5);
    if (!(worst <= 2e-5)) fprintf(stderr, "  %s: off by %g\n", name, worst);
    EXPECT_EQ(wg_model_embed(model, kept, bytes, 1, alone, dim * sizeof(float),
                             &(wg_embed_options){.token_count_max = limit + 1}, &err),
              WG_ERR_ARGUMENT);
    free(got);
    free(alone);
    for (size_t t = 0; t < all.count; t++) {
        free(all.text[t]);
        free(all.want[t]);
    }
    wg_model_close(model);
}

int main(void)
{
    check_folder("tiny-roberta-h32-d8-mean", 64);
    check_folder("tiny-xlm-roberta-h40-d20-f16-cls", 64);
    check_folder("tiny-distilbert-h32-d8-mean", 64);
    check_folder("tiny-mpnet-h32-d8-mean", 144);
    check_folder("tiny-modernbert-h32-d16-local8-mean", 128);
    check_folder("tiny-modernbert-h40-d20-f16-local9-cls", 128);
    return wgt_result();
}
