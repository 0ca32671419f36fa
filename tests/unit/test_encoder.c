/*
 * test_encoder.c - the forward pass on tiny models of every family and several shapes: every layer
 * against a float64 computation (tests/data, made with transformers), on every instruction set and
 * on the reference backend; the same bytes for a text alone and in any bin, order and number of
 * lanes; no allocation while running; and what is said when weights and configuration do not fit.
 * LABELS: quick numeric
 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crew.h"
#include "each_isa.h"
#include "model/model.h"

static const char *const folders[] = {"bert-h32-d8-mean",
                                      "bert-h48-d24-cls-dense",
                                      "bert-h80-d16-f16-weightedmean",
                                      "bert-h40-d20-bf16-shards-max",
                                      "bert-h128-d64-f16-mean",
                                      "bert-h32-pos512-lasttoken",
                                      "bert-h24-d8-sqrt-len",
                                      "roberta-h32-d8-mean",
                                      "xlm-roberta-h40-d20-f16-cls",
                                      "distilbert-h32-d8-mean",
                                      "mpnet-h32-d8-mean",
                                      "modernbert-h32-d16-local8-mean",
                                      "modernbert-h40-d20-f16-local9-cls"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

typedef struct model {
    wgi_description description;
    wgi_weights *weights;
    wgi_encoder *encoder;
} model;

static model open_model(const wgi_backend *backend, const char *folder)
{
    model m = {.weights = NULL};
    char path[512];
    wg_error err = {0};

    (void)snprintf(path, sizeof(path), "%s/tiny-%s", WGT_DATA, folder);
    EXPECT_OK(wgi_description_load(&m.description, path, &err));
    EXPECT_OK(wgi_weights_open(&m.weights, path, &err));
    if (m.weights)
        EXPECT_OK(wgi_encoder_open(&m.encoder, &m.description, m.weights, backend, &err));
    if (!m.encoder) exit(1);
    return m;
}

static void close_model(model *m)
{
    wgi_encoder_close(m->encoder);
    wgi_weights_close(m->weights);
}

/* ---------------------------------------------------------------------------------- texts */

typedef struct text {
    int32_t *ids;
    size_t count;
    float *alone; /* [count, H]: its hidden states when it is the whole bin */
} text;

typedef struct bin_room {
    wgi_bin bin;
    void *memory;
    void *lanes[4];
} bin_room;

static bin_room make_room(const model *m, size_t tokens, size_t lanes)
{
    wgi_plan plan = wgi_encoder_plan(m->encoder, tokens, tokens);
    bin_room room = {.bin = {.token_capacity = tokens, .sequence_capacity = tokens}};

    room.bin.token_ids = calloc(tokens, sizeof(int32_t));
    room.bin.type_ids = calloc(tokens, sizeof(int32_t));
    room.bin.position_ids = calloc(tokens, sizeof(int32_t));
    room.bin.segments = calloc(tokens, sizeof(wgi_segment));
    room.bin.sequence_ids = calloc(tokens, sizeof(uint64_t));
    room.memory = aligned_alloc(64, (plan.bin_bytes + 63) / 64 * 64);
    memset(room.memory, 0xFF, plan.bin_bytes); /* NaN: nothing may be read before it is written */
    for (size_t i = 0; i < lanes; i++) {
        room.lanes[i] = aligned_alloc(64, (plan.lane_bytes + 63) / 64 * 64);
        memset(room.lanes[i], 0xFF, plan.lane_bytes);
    }
    return room;
}

static void free_room(bin_room *room)
{
    free(room->bin.token_ids);
    free(room->bin.type_ids);
    free(room->bin.position_ids);
    free(room->bin.segments);
    free(room->bin.sequence_ids);
    free(room->memory);
    for (size_t i = 0; i < 4; i++)
        free(room->lanes[i]);
}

static void add_text(const model *m, wgi_bin *bin, const text *t, uint64_t id)
{
    bin->sequence_ids[bin->sequence_count] = id;
    bin->segments[bin->sequence_count++] =
        (wgi_segment){.row = (uint32_t)bin->token_count, .count = (uint32_t)t->count};
    for (size_t i = 0; i < t->count; i++) {
        bin->token_ids[bin->token_count] = t->ids[i];
        bin->position_ids[bin->token_count++] = (int32_t)(m->description.position_offset + i);
    }
}

/* ------------------------------------------------------------------------- against float64 */

typedef struct reference {
    const double *hidden; /* [L + 1][n][H] */
    size_t rows, columns;
    uint32_t layers_seen;
    double worst; /* error over the largest value of the tensor */
} reference;

static void compare(reference *r, const double *want, wgi_view hidden)
{
    double most = 0, worst = 0;

    for (size_t row = 0; row < r->rows; row++)
        for (size_t j = 0; j < r->columns; j++) {
            double value = want[row * r->columns + j];
            double error = fabs((double)hidden.data[row * hidden.stride + j] - value);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
            if (fabs(value) > most) most = fabs(value);
        }
    if (!(worst / most <= r->worst)) r->worst = worst / most;
}

static void probe(void *context, uint32_t layer, wgi_view hidden, size_t rows)
{
    reference *r = context;

    EXPECT_EQ(rows, r->rows);
    EXPECT_EQ(layer, r->layers_seen++);
    compare(r, r->hidden + layer * r->rows * r->columns, hidden);
}

static char *read_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;

    *count = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        bytes = malloc((size_t)size + 1);
        if (bytes) *count = fread(bytes, 1, (size_t)size, file);
    }
    if (file) (void)fclose(file);
    EXPECT(bytes && *count > 0);
    if (!bytes) exit(1);
    return bytes;
}

static uint32_t take_u32(const char **at)
{
    uint32_t value;

    memcpy(&value, *at, sizeof(value));
    *at += sizeof(value);
    return value;
}

static void check_layers(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);
    char path[512];
    size_t bytes, hidden = m.description.hidden_count;
    wg_error err;

    (void)snprintf(path, sizeof(path), "%s/tiny-%s/reference.bin", WGT_DATA, folder);
    char *data = read_file(path, &bytes);
    const char *at = data + 8;
    int is_second = memcmp(data, "WGTBREF2", 8) == 0;
    EXPECT(is_second || memcmp(data, "WGTBREF1", 8) == 0);
    uint32_t layers = take_u32(&at), width = take_u32(&at), dim = take_u32(&at),
             texts = take_u32(&at), flags = is_second ? take_u32(&at) : 0;
    size_t states = layers + 1 + flags % 2; /* flag 1: behind the final norm, too */
    EXPECT(flags < 2);
    EXPECT_EQ(layers, m.description.layer_count);
    EXPECT_EQ(width, hidden);
    EXPECT(texts > 0);
    for (uint32_t t = 0; t < texts && at < data + bytes; t++) {
        text one = {.count = take_u32(&at)};
        size_t doubles = states * one.count * hidden;
        reference r = {.rows = one.count, .columns = hidden};
        bin_room room = make_room(&m, one.count, 1);
        wgi_forward forward = {.bin_memory = room.memory,
                               .lane_memory = room.lanes,
                               .probe = probe,
                               .probe_context = &r};
        double *values = malloc(doubles * sizeof(double));
        wgi_view out;

        one.ids = malloc(one.count * sizeof(int32_t));
        memcpy(one.ids, at, one.count * sizeof(int32_t));
        at += one.count * sizeof(int32_t);
        memcpy(values, at, doubles * sizeof(double));
        at += (doubles + 6 * hidden + 2 * (size_t)dim) * sizeof(double);
        r.hidden = values;
        add_text(&m, &room.bin, &one, 0);
        EXPECT_OK(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err));
        EXPECT_EQ(r.layers_seen, layers + 1);
        compare(&r, values + (states - 1) * one.count * hidden, out);
        EXPECT(r.worst <= 2e-5);
        if (!(r.worst <= 2e-5))
            fprintf(stderr, "  %s %s text %u: %g of the largest value\n", backend->isa, folder, t,
                    r.worst);
        free(values);
        free(one.ids);
        free_room(&room);
    }
    EXPECT(at == data + bytes);
    free(data);
    close_model(&m);
}

/* --------------------------------------------------------------------------------- the law */

#define TEXTS 24

/* Most tokens of a text. */
static uint32_t position_limit(const model *m)
{
    return m->description.position_count - m->description.position_offset;
}

static void make_texts(const model *m, text texts[TEXTS])
{
    size_t hidden = m->description.hidden_count;
    wg_error err;

    for (size_t t = 0; t < TEXTS; t++) {
        wgi_view out;
        texts[t].count = t < 3 ? t + 1 : 1 + wgt_below(position_limit(m));
        texts[t].ids = malloc(texts[t].count * sizeof(int32_t));
        texts[t].alone = malloc(texts[t].count * hidden * sizeof(float));
        for (size_t i = 0; i < texts[t].count; i++)
            texts[t].ids[i] = (int32_t)wgt_below(m->description.vocabulary_count);
        bin_room room = make_room(m, texts[t].count, 1);
        wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};
        add_text(m, &room.bin, &texts[t], t);
        EXPECT_OK(wgi_encoder_run(m->encoder, &room.bin, &forward, &out, &err));
        for (size_t i = 0; i < texts[t].count; i++)
            memcpy(texts[t].alone + i * hidden, out.data + i * out.stride, hidden * sizeof(float));
        free_room(&room);
    }
}

static void free_texts(text texts[TEXTS])
{
    for (size_t t = 0; t < TEXTS; t++) {
        free(texts[t].ids);
        free(texts[t].alone);
    }
}

/* Every text of the bin has the bytes it has alone. */
static void expect_alone(const model *m, const wgi_bin *bin, const text *texts, wgi_view out)
{
    size_t hidden = m->description.hidden_count;
    int is_same = 1;

    for (size_t s = 0; s < bin->sequence_count; s++)
        for (size_t i = 0; i < bin->segments[s].count; i++)
            is_same &=
                memcmp(out.data + (bin->segments[s].row + i) * out.stride,
                       texts[bin->sequence_ids[s]].alone + i * hidden, hidden * sizeof(float)) == 0;
    EXPECT(is_same);
}

/* One task for a crew: the first lane that asks gets it, the others can only help. */
typedef struct crew_task {
    const model *m;
    bin_room *room;
    wgi_crew *crew;
    int is_taken;
    wgi_view out;
    wg_status status;
    pthread_mutex_t lock;
} crew_task;

static wgi_crew_answer take(void *context, size_t lane, void **task)
{
    crew_task *t = context;
    wgi_crew_answer answer = WGI_CREW_END;

    (void)lane;
    pthread_mutex_lock(&t->lock);
    if (t->is_taken == 0) {
        t->is_taken = 1;
        *task = t;
        answer = WGI_CREW_TASK;
    } else if (t->is_taken == 1) {
        answer = WGI_CREW_NONE;
    }
    pthread_mutex_unlock(&t->lock);
    return answer;
}

static void run_task(void *context, size_t lane, void *task)
{
    crew_task *t = task;
    wgi_forward forward = {
        .bin_memory = t->room->memory, .lane_memory = t->room->lanes, .lane = lane};
    wg_error err;

    (void)context;
    pthread_mutex_lock(&t->lock); /* until the opener has stored the handle */
    forward.crew = t->crew;
    pthread_mutex_unlock(&t->lock);
    t->status = wgi_encoder_run(t->m->encoder, &t->room->bin, &forward, &t->out, &err);
    pthread_mutex_lock(&t->lock);
    t->is_taken = 2;
    pthread_mutex_unlock(&t->lock);
    wgi_crew_wake(forward.crew);
}

static void run_with_crew(const model *m, bin_room *room, wgi_view *out)
{
    crew_task task = {.m = m, .room = room, .lock = PTHREAD_MUTEX_INITIALIZER};
    wgi_crew_options options = {.lane_count = 3, .take = take, .run = run_task, .context = &task};
    wg_error err;

    pthread_mutex_lock(&task.lock);
    EXPECT_OK(wgi_crew_open(&task.crew, &options, &err));
    pthread_mutex_unlock(&task.lock);
    wgi_crew_close(task.crew);
    EXPECT_EQ(task.status, WG_OK);
    *out = task.out;
}

static void check_law(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);
    text texts[TEXTS];
    wg_error err;

    make_texts(&m, texts);
    for (int round = 0; round < 6; round++) {
        size_t capacity = position_limit(&m) + wgt_below(1500), at = 0, order[TEXTS];
        bin_room room = make_room(&m, capacity, 3);

        for (size_t i = 0; i < TEXTS; i++)
            order[i] = i;
        for (size_t i = TEXTS; i-- > 1;) {
            size_t j = wgt_below(i + 1), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        while (at < TEXTS) {
            wgi_view out = {NULL, 0};
            wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};

            room.bin.token_count = room.bin.sequence_count = 0;
            while (at < TEXTS && room.bin.token_count + texts[order[at]].count <= capacity) {
                add_text(&m, &room.bin, &texts[order[at]], order[at]);
                at++;
            }
            if (round % 3 == 2) {
                run_with_crew(&m, &room, &out);
            } else {
                uint64_t before = wgi_alloc_count();
                EXPECT_OK(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err));
                EXPECT_EQ(wgi_alloc_count(), before);
            }
            if (out.data) expect_alone(&m, &room.bin, texts, out);
        }
        free_room(&room);
    }
    free_texts(texts);
    close_model(&m);
}

typedef struct first_state {
    float *rows; /* [count, H] */
    size_t columns;
} first_state;

static void keep_first(void *context, uint32_t layer, wgi_view hidden, size_t rows)
{
    first_state *state = context;

    for (size_t row = 0; layer == 0 && row < rows; row++)
        memcpy(state->rows + row * state->columns, hidden.data + row * hidden.stride,
               state->columns * sizeof(float));
}

/*
 * A padding token inside a text: where positions begin behind the padding id it takes no position,
 * so that what follows is embedded as if it were not there; and its own position is the same
 * wherever it stands.
 */
static void check_padding_token(const wgi_backend *backend, const char *folder)
{
    static const int32_t ids[2][7] = {{0, 9, 1, 8, 1, 7, 2}, {0, 9, 8, 7, 2}};
    static const int same[5][2] = {{0, 0}, {1, 1}, {3, 2}, {5, 3}, {6, 4}};
    model m = open_model(backend, folder);
    size_t hidden = m.description.hidden_count, bytes = hidden * sizeof(float);
    first_state states[2];
    wg_error err;

    for (size_t t = 0; t < 2; t++) {
        text one = {.ids = (int32_t *)(uintptr_t)ids[t], .count = t ? 5 : 7};
        bin_room room = make_room(&m, 20, 1);
        wgi_forward forward = {.bin_memory = room.memory,
                               .lane_memory = room.lanes,
                               .probe = keep_first,
                               .probe_context = &states[t]};
        wgi_view out;

        states[t] = (first_state){calloc(20, bytes), hidden};
        add_text(&m, &room.bin, &one, 0);
        add_text(&m, &room.bin, &one, 1);
        EXPECT_OK(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err));
        EXPECT(memcmp(states[t].rows, states[t].rows + one.count * hidden, one.count * bytes) == 0);
        free_room(&room);
    }
    for (size_t i = 0; i < 5; i++)
        EXPECT(memcmp(states[0].rows + (size_t)same[i][0] * hidden,
                      states[1].rows + (size_t)same[i][1] * hidden, bytes) == 0);
    EXPECT(memcmp(states[0].rows + 2 * hidden, states[0].rows + 4 * hidden, bytes) == 0);
    free(states[0].rows);
    free(states[1].rows);
    close_model(&m);
}

/* One bin of 190,000 tokens: as many texts as fit, each with the bytes it has alone. */
static void check_large_bin(const wgi_backend *backend, const char *folder)
{
    enum { CAPACITY = 190000 };
    model m = open_model(backend, folder);
    bin_room room = make_room(&m, CAPACITY, 1);
    wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};
    text texts[TEXTS];
    size_t t = 0;
    wgi_view out;
    wg_error err;

    make_texts(&m, texts);
    while (room.bin.token_count + texts[t].count <= CAPACITY) {
        add_text(&m, &room.bin, &texts[t], t);
        t = wgt_below(TEXTS);
    }
    EXPECT(room.bin.token_count > CAPACITY - 200);
    EXPECT_OK(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err));
    expect_alone(&m, &room.bin, texts, out);
    free_texts(texts);
    free_room(&room);
    close_model(&m);
}

/* ---------------------------------------------------------------------------------- faults */

static void expect_refused(const wgi_backend *backend, const model *m, const wgi_description *wrong,
                           const char *first, const char *second)
{
    wgi_encoder *encoder = NULL;
    wg_error err = {0};

    EXPECT(wgi_encoder_open(&encoder, wrong, m->weights, backend, &err) != WG_OK);
    EXPECT(encoder == NULL);
    EXPECT_IN(err.message, first);
    EXPECT_IN(err.message, second);
    wgi_encoder_close(encoder);
}

static void check_faults(const wgi_backend *backend)
{
    model m = open_model(backend, folders[0]);
    wgi_description wrong = m.description;
    bin_room room = make_room(&m, 4, 1);
    wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};
    text one = {.ids = (int32_t[]){2, 5, 3, 4}, .count = 4};
    wgi_view out;
    wg_error err = {0};

    wrong.layer_count++;
    expect_refused(backend, &m, &wrong, "encoder.layer.2.", "num_hidden_layers 3");
    wrong = m.description;
    wrong.feed_forward_count++;
    expect_refused(backend, &m, &wrong, "encoder.layer.0.intermediate.dense.weight",
                   "intermediate_size");
    wrong = m.description;
    wrong.hidden_count *= 2;
    expect_refused(backend, &m, &wrong, "embeddings.word_embeddings.weight", "hidden_size");
    wrong = m.description;
    wrong.vocabulary_count--;
    expect_refused(backend, &m, &wrong, "embeddings.word_embeddings.weight", "vocab_size");
    wrong = m.description;
    wrong.position_count = 512;
    expect_refused(backend, &m, &wrong, "position_embeddings", "max_position_embeddings");

    add_text(&m, &room.bin, &one, 0);
    EXPECT_OK(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err));
    room.bin.position_ids[2] = (int32_t)m.description.position_count;
    EXPECT_EQ(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "row 2: position 64");
    room.bin.position_ids[2] = 2;
    room.bin.type_ids[1] = -1;
    EXPECT_EQ(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "row 1: token type -1");
    room.bin.type_ids[1] = 0;
    room.bin.token_ids[3] = (int32_t)m.description.vocabulary_count;
    EXPECT_EQ(wgi_encoder_run(m.encoder, &room.bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "row 3: token id");

    EXPECT_EQ(wgi_encoder_plan(m.encoder, SIZE_MAX / 100, 1).bin_bytes, SIZE_MAX);
    EXPECT(wgi_encoder_bytes(m.encoder) > 20000);
    free_room(&room);
    close_model(&m);
}

/* Matrices that hold several, keys by the family's own names, and a family that is none. */
static void check_family_faults(const wgi_backend *backend)
{
    model m = open_model(backend, "modernbert-h32-d16-local8-mean");
    wgi_description wrong = m.description;

    wrong.feed_forward_count++;
    expect_refused(backend, &m, &wrong, "layers.0.mlp.Wi.weight", "2 x intermediate_size 146");
    wrong = m.description;
    wrong.head_count++;
    expect_refused(backend, &m, &wrong, "layers.0.attn.Wqkv.weight", "3 x hidden_size 144");
    wrong = m.description;
    wrong.encoder.lacks_norm_bias = false;
    expect_refused(backend, &m, &wrong, "embeddings.norm.bias", "is missing");
    wrong = m.description;
    wrong.encoder.lacks_attention_bias = false;
    expect_refused(backend, &m, &wrong, "layers.0.attn.Wqkv.bias", "is missing");
    (void)snprintf(wrong.architecture, sizeof(wrong.architecture), "electra");
    expect_refused(backend, &m, &wrong, "'electra'", "is not a family");
    close_model(&m);

    m = open_model(backend, "mpnet-h32-d8-mean");
    wrong = m.description;
    wrong.head_count = wrong.key_head_count = 2;
    expect_refused(backend, &m, &wrong, "encoder.relative_attention_bias.weight",
                   "num_attention_heads 2");
    close_model(&m);

    m = open_model(backend, "distilbert-h32-d8-mean");
    wrong = m.description;
    wrong.layer_count = 3;
    expect_refused(backend, &m, &wrong, "distilbert.transformer.layer.2.", "n_layers 3");
    wrong = m.description;
    wrong.feed_forward_count = 71;
    expect_refused(backend, &m, &wrong, "ffn.lin1.weight", "hidden_dim 71");
    close_model(&m);
}

/* Every allocation of opening fails in turn. */
static void check_no_memory(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);

    for (long nth = 1; nth < 1000; nth++) {
        wgi_encoder *encoder = NULL;
        wg_error err = {0};

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_encoder_open(&encoder, &m.description, m.weights, backend, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 10);
            wgi_encoder_close(encoder);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(encoder == NULL);
    }
    close_model(&m);
}

/* Text with every `from` replaced by `to`; the caller frees. */
static char *replaced(const char *in, size_t count, const char *from, const char *to,
                      size_t *out_count)
{
    size_t from_count = strlen(from), to_count = strlen(to), at = 0;
    char *out = malloc(count * 2 + 1);

    if (!out) exit(1);
    for (size_t i = 0; i < count;) {
        if (i + from_count <= count && memcmp(in + i, from, from_count) == 0) {
            memcpy(out + at, to, to_count);
            at += to_count;
            i += from_count;
        } else {
            out[at++] = in[i++];
        }
    }
    *out_count = at;
    return out;
}

/* The same file with 'bert.' before every name, as a checkpoint of BertForMaskedLM has it. */
static void check_prefix(const wgi_backend *backend)
{
    model m = open_model(backend, folders[0]);
    char source[512], path[] = P_tmpdir "/test_encoder_XXXXXX.safetensors";
    size_t bytes, header, first_count, second_count;
    wgi_weights *weights = NULL;
    wgi_encoder *encoder = NULL;
    wg_error err;

    (void)snprintf(source, sizeof(source), "%s/tiny-%s/model.safetensors", WGT_DATA, folders[0]);
    char *data = read_file(source, &bytes);
    memcpy(&header, data, sizeof(header));
    char *first = replaced(data + 8, header, "\"embeddings.", "\"bert.embeddings.", &first_count);
    char *second = replaced(first, first_count, "\"encoder.", "\"bert.encoder.", &second_count);
    int fd = mkstemps(path, 12);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    EXPECT(file != NULL && second_count > header);
    if (file) {
        EXPECT_EQ(fwrite(&second_count, 1, 8, file), 8);
        EXPECT_EQ(fwrite(second, 1, second_count, file), second_count);
        EXPECT_EQ(fwrite(data + 8 + header, 1, bytes - 8 - header, file), bytes - 8 - header);
        (void)fclose(file);
        EXPECT_OK(wgi_weights_open(&weights, path, &err));
        if (weights) EXPECT_OK(wgi_encoder_open(&encoder, &m.description, weights, backend, &err));
        (void)unlink(path);
    }
    wgi_encoder_close(encoder);
    wgi_weights_close(weights);
    free(data);
    free(first);
    free(second);
    close_model(&m);
}

static void body(const wgi_backend *backend)
{
    for (size_t i = 0; i < FOLDERS; i++)
        check_layers(backend, folders[i]);
    for (size_t i = 3; i < FOLDERS; i++)
        check_law(backend, folders[i]);
    check_padding_token(backend, "roberta-h32-d8-mean");
    check_padding_token(backend, "mpnet-h32-d8-mean");
    check_large_bin(backend, "xlm-roberta-h40-d20-f16-cls");
    check_large_bin(backend, "modernbert-h32-d16-local8-mean");
    check_faults(backend);
    check_family_faults(backend);
    check_no_memory(backend, folders[0]);
    check_no_memory(backend, "mpnet-h32-d8-mean");
    check_no_memory(backend, "modernbert-h32-d16-local8-mean");
    check_prefix(backend);
}

int main(void)
{
    const wgi_backend *backend = NULL;
    wg_error err;

    wgt_seed_set(0xE4C0);
    wgt_each_isa(body);
    EXPECT_OK(wgi_backend_find(&backend, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; backend && i < FOLDERS; i++)
        check_layers(backend, folders[i]);
    return wgt_result();
}
