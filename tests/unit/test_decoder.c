/*
 * test_decoder.c - the forward pass on tiny decoders of every family: every layer and the final
 * norm against a float64 computation (tests/data, made with transformers), on every instruction set
 * and on the reference backend; the same bytes for a text alone and in any bin, order and number of
 * lanes, windows and tiles of keys included; no allocation while running; and what is said when
 * weights and configuration do not fit.
 * LABELS: quick numeric
 */
#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/crew.h"
#include "each_isa.h"
#include "model/decoder.h"
#include "model/network.h"

static const char *const folders[] = {"llama-h64-d16-f16-tied",
                                      "llama-h40-d16-bf16-rope-llama3",
                                      "llama-h32-d16-rope-linear",
                                      "qwen2-h48-d16-bf16-shards",
                                      "qwen3-h48-d32-bf16-embed-lasttoken",
                                      "mistral-h32-d8-window8",
                                      "gemma3-h40-d16-bf16-window6",
                                      "gemma3-h32-d8-window5-layer-types",
                                      "phi3-h32-d8-f16-window12",
                                      "granite-h32-d8-multipliers"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

typedef struct model {
    wgi_description description;
    wgi_weights *weights;
    wgi_network *network;
} model;

static void open_path(model *m, const wgi_backend *backend, const char *path)
{
    wg_error err = {0};

    *m = (model){.weights = NULL};
    EXPECT_OK(wgi_description_load(&m->description, path, &err));
    EXPECT(m->description.is_decoder);
    EXPECT_OK(wgi_weights_open(&m->weights, path, &err));
    if (m->weights)
        EXPECT_OK(wgi_network_open(&m->network, &m->description, m->weights, backend, &err));
    if (!m->network) exit(1);
}

static model open_model(const wgi_backend *backend, const char *folder)
{
    char path[512];
    model m;

    (void)snprintf(path, sizeof(path), "%s/tiny-%s", WGT_DATA, folder);
    open_path(&m, backend, path);
    return m;
}

static void close_model(model *m)
{
    wgi_network_close(m->network);
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
    wgi_plan plan = wgi_network_plan(m->network, tokens, tokens);
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

static void add_text(wgi_bin *bin, const text *t, uint64_t id)
{
    bin->sequence_ids[bin->sequence_count] = id;
    bin->segments[bin->sequence_count++] =
        (wgi_segment){.row = (uint32_t)bin->token_count, .count = (uint32_t)t->count};
    for (size_t i = 0; i < t->count; i++) {
        bin->token_ids[bin->token_count] = t->ids[i];
        bin->position_ids[bin->token_count++] = (int32_t)i;
    }
}

/* ------------------------------------------------------------------------- against float64 */

typedef struct reference {
    const double *hidden; /* [L + 1][n][H], and the final one behind */
    size_t rows, columns;
    uint32_t layers_seen;
    double worst; /* error over the largest value of the tensor */
    uint32_t worst_layer;
} reference;

static void probe(void *context, uint32_t layer, wgi_view hidden, size_t rows)
{
    reference *r = context;
    const double *want = r->hidden + layer * r->rows * r->columns;
    double most = 0, worst = 0;

    EXPECT_EQ(rows, r->rows);
    EXPECT_EQ(layer, r->layers_seen++);
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < r->columns; j++) {
            double value = want[row * r->columns + j];
            double error = fabs((double)hidden.data[row * hidden.stride + j] - value);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
            if (fabs(value) > most) most = fabs(value);
        }
    if (!(worst / most <= r->worst)) {
        r->worst = worst / most;
        r->worst_layer = layer;
    }
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

static void check_text(const model *m, const char *isa, const char *folder, const text *one,
                       const double *values)
{
    uint32_t layers = m->description.layer_count;
    reference r = {.hidden = values, .rows = one->count, .columns = m->description.hidden_count};
    bin_room room = make_room(m, one->count, 1);
    wgi_forward forward = {
        .bin_memory = room.memory, .lane_memory = room.lanes, .probe = probe, .probe_context = &r};
    wgi_view out;
    wg_error err;

    add_text(&room.bin, one, 0);
    EXPECT_OK(wgi_network_run(m->network, &room.bin, &forward, &out, &err));
    EXPECT_EQ(r.layers_seen, layers + 1);
    probe(&r, layers + 1, out, one->count); /* the final norm's */
    EXPECT(r.worst <= 2e-5);
    if (!(r.worst <= 2e-5))
        fprintf(stderr, "  %s %s %zu tokens, layer %u: %g of the largest value\n", isa, folder,
                one->count, r.worst_layer, r.worst);
    free_room(&room);
}

static void check_layers(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);
    char path[512];
    size_t bytes, hidden = m.description.hidden_count;

    (void)snprintf(path, sizeof(path), "%s/tiny-%s/reference.bin", WGT_DATA, folder);
    char *data = read_file(path, &bytes);
    const char *at = data + 8;
    EXPECT(memcmp(data, "WGTBREF2", 8) == 0);
    uint32_t layers = take_u32(&at), width = take_u32(&at), dim = take_u32(&at),
             texts = take_u32(&at), flags = take_u32(&at);
    EXPECT_EQ(layers, m.description.layer_count);
    EXPECT_EQ(width, hidden);
    EXPECT_EQ(flags & 1, 1);
    EXPECT(texts > 0);
    for (uint32_t t = 0; t < texts && at < data + bytes; t++) {
        text one = {.count = take_u32(&at)};
        size_t doubles = (layers + 2) * one.count * hidden;
        double *values = malloc(doubles * sizeof(double));

        one.ids = malloc(one.count * sizeof(int32_t));
        memcpy(one.ids, at, one.count * sizeof(int32_t));
        at += one.count * sizeof(int32_t);
        memcpy(values, at, doubles * sizeof(double));
        at +=
            (doubles + (flags & 2 ? one.count : 0) + 6 * hidden + 2 * (size_t)dim) * sizeof(double);
        check_text(&m, backend->isa, folder, &one, values);
        free(values);
        free(one.ids);
    }
    EXPECT(at == data + bytes);
    free(data);
    close_model(&m);
}

/* --------------------------------------------------------------------------------- the law */

#define TEXTS 24

static void make_texts(const model *m, text texts[TEXTS])
{
    size_t hidden = m->description.hidden_count;
    wg_error err;

    for (size_t t = 0; t < TEXTS; t++) {
        wgi_view out;
        texts[t].count = t < 3 ? t + 1 : 1 + wgt_below(t % 6 ? 200 : m->description.position_count);
        texts[t].ids = malloc(texts[t].count * sizeof(int32_t));
        texts[t].alone = malloc(texts[t].count * hidden * sizeof(float));
        for (size_t i = 0; i < texts[t].count; i++)
            texts[t].ids[i] = (int32_t)wgt_below(m->description.vocabulary_count);
        bin_room room = make_room(m, texts[t].count, 1);
        wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};
        add_text(&room.bin, &texts[t], t);
        EXPECT_OK(wgi_network_run(m->network, &room.bin, &forward, &out, &err));
        for (size_t i = 0; i < texts[t].count; i++)
            memcpy(texts[t].alone + i * hidden, out.data + i * out.stride, hidden * sizeof(float));
        free_room(&room);
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
    t->status = wgi_network_run(t->m->network, &t->room->bin, &forward, &t->out, &err);
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

static void check_rounds(const model *m, const text *texts)
{
    wg_error err;

    for (int round = 0; round < 6; round++) {
        size_t capacity = m->description.position_count + wgt_below(1500), at = 0, order[TEXTS];
        bin_room room = make_room(m, capacity, 3);

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
                add_text(&room.bin, &texts[order[at]], order[at]);
                at++;
            }
            if (round % 3 == 2) {
                run_with_crew(m, &room, &out);
            } else {
                uint64_t before = wgi_alloc_count();
                EXPECT_OK(wgi_network_run(m->network, &room.bin, &forward, &out, &err));
                EXPECT_EQ(wgi_alloc_count(), before);
            }
            if (out.data) expect_alone(m, &room.bin, texts, out);
        }
        free_room(&room);
    }
}

/* Causal: the rows of a text's beginning are those of the beginning alone. */
static void check_beginning(const model *m, const text *whole)
{
    size_t hidden = m->description.hidden_count, most = whole->count;
    int is_same = 1;

    for (size_t count = 1; count < most; count += 1 + count / 2) {
        text part = {.ids = whole->ids, .count = count};
        bin_room room = make_room(m, count, 1);
        wgi_forward forward = {.bin_memory = room.memory, .lane_memory = room.lanes};
        wgi_view out;
        wg_error err;

        add_text(&room.bin, &part, 0);
        EXPECT_OK(wgi_network_run(m->network, &room.bin, &forward, &out, &err));
        for (size_t i = 0; i < count; i++)
            is_same &= memcmp(out.data + i * out.stride, whole->alone + i * hidden,
                              hidden * sizeof(float)) == 0;
        free_room(&room);
    }
    EXPECT(is_same);
}

/* positions and window: 0: as the folder says. */
static void check_law(const wgi_backend *backend, const char *folder, uint32_t positions,
                      uint32_t window)
{
    model m = open_model(backend, folder);
    text texts[TEXTS];
    wg_error err;

    if (positions) { /* rotary positions go as far as one likes */
        wgi_network_close(m.network);
        m.network = NULL;
        m.description.position_count = positions;
        if (window) m.description.decoder.window = window;
        EXPECT_OK(wgi_network_open(&m.network, &m.description, m.weights, backend, &err));
    }
    make_texts(&m, texts);
    check_rounds(&m, texts);
    size_t longest = 0;
    for (size_t t = 1; t < TEXTS; t++)
        if (texts[t].count > texts[longest].count) longest = t;
    check_beginning(&m, &texts[longest]);
    for (size_t t = 0; t < TEXTS; t++) {
        free(texts[t].ids);
        free(texts[t].alone);
    }
    close_model(&m);
}

/* ------------------------------------------------------------- windows across tiles of keys */

/* Long texts with windows of every kind, against the reference backend. */
static void check_windows(const wgi_backend *backend)
{
    static const struct {
        uint32_t window;
        size_t count;
    } cases[] = {{1, 40}, {31, 600}, {512, 1100}, {513, 1300}, {700, 1700}, {2000, 1500}};
    const wgi_backend *plain = NULL;
    wg_error err;

    EXPECT_OK(wgi_backend_find(&plain, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && plain; i++) {
        model m[2] = {open_model(backend, "mistral-h32-d8-window8"),
                      open_model(plain, "mistral-h32-d8-window8")};
        text one = {.ids = calloc(cases[i].count, sizeof(int32_t)), .count = cases[i].count};
        bin_room rooms[2];
        wgi_view out[2];
        double worst = 0, most = 0;

        for (size_t j = 0; j < one.count; j++)
            one.ids[j] = (int32_t)wgt_below(m[0].description.vocabulary_count);
        for (int k = 0; k < 2; k++) {
            wgi_network_close(m[k].network);
            m[k].network = NULL;
            m[k].description.position_count = 4096;
            m[k].description.decoder.window = cases[i].window;
            EXPECT_OK(wgi_network_open(&m[k].network, &m[k].description, m[k].weights,
                                       k ? plain : backend, &err));
            rooms[k] = make_room(&m[k], one.count, 1);
            wgi_forward forward = {.bin_memory = rooms[k].memory, .lane_memory = rooms[k].lanes};
            add_text(&rooms[k].bin, &one, 0);
            EXPECT_OK(wgi_network_run(m[k].network, &rooms[k].bin, &forward, &out[k], &err));
        }
        for (size_t row = 0; row < one.count; row++)
            for (size_t j = 0; j < m[0].description.hidden_count; j++) {
                double want = (double)out[1].data[row * out[1].stride + j];
                double error = fabs((double)out[0].data[row * out[0].stride + j] - want);
                if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
                if (fabs(want) > most) most = fabs(want);
            }
        EXPECT(worst <= 2e-5 * most);
        if (!(worst <= 2e-5 * most))
            fprintf(stderr, "  window %u: %g of the largest value\n", cases[i].window,
                    worst / most);
        for (int k = 0; k < 2; k++) {
            free_room(&rooms[k]);
            close_model(&m[k]);
        }
        free(one.ids);
    }
}

/* ------------------------------------------------------------------ weights kept as stored */

/* The same bits as f32 weights, on a path of its own. */
static void check_stored(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);
    wgi_network *stored = NULL;
    text one = {.ids = calloc(200, sizeof(int32_t)), .count = 200};
    bin_room rooms[2];
    wgi_view out[2];
    wg_error err;
    int is_same = 1;

    for (size_t i = 0; i < one.count; i++)
        one.ids[i] = (int32_t)wgt_below(m.description.vocabulary_count);
    m.description.decoder.keep_stored = true;
    EXPECT_OK(wgi_network_open(&stored, &m.description, m.weights, backend, &err));
    EXPECT(wgi_network_bytes(stored) < wgi_network_bytes(m.network));
    for (int k = 0; k < 2; k++) {
        wgi_network *kept = m.network;
        rooms[k] = make_room(&m, one.count, 1);
        wgi_forward forward = {.bin_memory = rooms[k].memory, .lane_memory = rooms[k].lanes};
        add_text(&rooms[k].bin, &one, 0);
        m.network = k ? stored : kept;
        EXPECT_OK(wgi_network_run(m.network, &rooms[k].bin, &forward, &out[k], &err));
        m.network = kept;
    }
    for (size_t row = 0; row < one.count; row++)
        is_same &= memcmp(out[0].data + row * out[0].stride, out[1].data + row * out[1].stride,
                          m.description.hidden_count * sizeof(float)) == 0;
    EXPECT(is_same);
    for (int k = 0; k < 2; k++)
        free_room(&rooms[k]);
    free(one.ids);
    wgi_network_close(stored);
    close_model(&m);
}

/* ---------------------------------------------------------------------------------- faults */

static void expect_refused(const wgi_backend *backend, const model *m, const wgi_description *wrong,
                           const char *first, const char *second)
{
    wgi_network *network = NULL;
    wg_error err = {0};

    EXPECT(wgi_network_open(&network, wrong, m->weights, backend, &err) != WG_OK);
    EXPECT(network == NULL);
    EXPECT_IN(err.message, first);
    EXPECT_IN(err.message, second);
    wgi_network_close(network);
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
    expect_refused(backend, &m, &wrong, "model.layers.2.", "num_hidden_layers 3");
    wrong = m.description;
    wrong.feed_forward_count++;
    expect_refused(backend, &m, &wrong, "layers.0.mlp.gate_proj.weight", "intermediate_size");
    wrong = m.description;
    wrong.vocabulary_count--;
    expect_refused(backend, &m, &wrong, "embed_tokens.weight", "vocab_size");
    wrong = m.description;
    wrong.key_head_count = 4;
    expect_refused(backend, &m, &wrong, "self_attn.k_proj.weight", "num_key_value_heads");
    wrong = m.description;
    wrong.decoder.has_qkv_bias = true;
    expect_refused(backend, &m, &wrong, "self_attn.q_proj.bias", "is missing");
    wrong = m.description;
    wrong.decoder.is_fused = true;
    expect_refused(backend, &m, &wrong, "self_attn.qkv_proj.weight", "is missing");
    wrong = m.description;
    wrong.decoder.has_rope_factors = true;
    expect_refused(backend, &m, &wrong, "rope_freqs.weight", "is missing");

    add_text(&room.bin, &one, 0);
    EXPECT_OK(wgi_network_run(m.network, &room.bin, &forward, &out, &err));
    room.bin.position_ids[2] = (int32_t)m.description.position_count;
    EXPECT_EQ(wgi_network_run(m.network, &room.bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "row 2: position 256");
    room.bin.position_ids[2] = 2;
    room.bin.token_ids[3] = -1;
    EXPECT_EQ(wgi_network_run(m.network, &room.bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "row 3: token id -1");

    EXPECT_EQ(wgi_network_plan(m.network, SIZE_MAX / 100, 1).bin_bytes, SIZE_MAX);
    EXPECT(wgi_network_bytes(m.network) > 20000);
    EXPECT_EQ(wgi_network_mapped_bytes(m.network), 300 * 64 * 2);
    free_room(&room);
    close_model(&m);
}

/* Every allocation of opening fails in turn. */
static void check_no_memory(const wgi_backend *backend, const char *folder)
{
    model m = open_model(backend, folder);

    for (long nth = 1; nth < 1000; nth++) {
        wgi_network *network = NULL;
        wg_error err = {0};

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_network_open(&network, &m.description, m.weights, backend, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 10);
            wgi_network_close(network);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(network == NULL);
    }
    close_model(&m);
}

static void body(const wgi_backend *backend)
{
    for (size_t i = 0; i < FOLDERS; i++)
        check_layers(backend, folders[i]);
    check_windows(backend);
    check_law(backend, folders[0], 0, 0);
    check_law(backend, "qwen3-h48-d32-bf16-embed-lasttoken", 0, 0);
    check_law(backend, "mistral-h32-d8-window8", 1500, 600);
    check_law(backend, "gemma3-h40-d16-bf16-window6", 1300, 0);
    check_law(backend, "phi3-h32-d8-f16-window12", 0, 0);
    check_law(backend, "granite-h32-d8-multipliers", 0, 0);
    check_stored(backend, folders[0]);
    check_stored(backend, "qwen2-h48-d16-bf16-shards");
    check_stored(backend, "phi3-h32-d8-f16-window12");
    check_faults(backend);
    check_no_memory(backend, folders[0]);
    check_no_memory(backend, "gemma3-h40-d16-bf16-window6");
}

int main(void)
{
    const wgi_backend *backend = NULL;
    wg_error err;

    wgt_seed_set(0xDEC0);
    wgt_each_isa(body);
    EXPECT_OK(wgi_backend_find(&backend, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; backend && i < FOLDERS; i++)
        check_layers(backend, folders[i]);
    return wgt_result();
}
