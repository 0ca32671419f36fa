/*
 * network_cases.h - what holds for both forward passes, on a tiny model (data/tiny-*): every layer
 * is that of a float64 computation, and a text has the same bytes alone and in any bin, order and
 * number of lanes, without an allocation while running. Each test names its folders and adds what
 * its pass alone has; both go through model/network.h, so that nothing here asks which pass it is
 * but the check of reference.bin and that of what a failed opening leaves.
 *
 *     wgt_network m = wgt_tiny_open(backend, folder);
 *     wgt_sequence texts[WGT_TEXTS];
 *     wgt_texts_make(&m, 200, texts);
 *     wgt_check_bins(&m, texts);
 *
 * Threads: wgt_check_bins runs a crew of three; nothing else leaves the caller's.
 */
#ifndef WGT_NETWORK_CASES_H
#define WGT_NETWORK_CASES_H

#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/crew.h"
#include "each_isa.h"
#include "open_network.h"
#include "temporary.h"

static inline wgt_network wgt_tiny_open(const wgi_backend *backend, const char *folder)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tiny-%s", WGT_DATA, folder);
    return wgt_network_open(backend, path);
}

/* ---------------------------------------------------------------------------------- texts */

typedef struct wgt_sequence {
    int32_t *ids;
    size_t count;
    float *alone; /* [count, H]: its hidden states when it is the whole bin */
} wgt_sequence;

typedef struct wgt_room {
    wgi_bin bin; /* an allocation for each array: a sanitizer guards their ends */
    void *memory;
    void *lanes[4];
} wgt_room;

static inline wgt_room wgt_room_open(const wgt_network *m, size_t tokens, size_t lanes)
{
    wgi_plan plan = wgi_network_plan(m->network, tokens, tokens);
    wgt_room room = {.bin = {.token_capacity = tokens, .sequence_capacity = tokens}};

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

static inline void wgt_room_close(wgt_room *room)
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

static inline void wgt_sequence_add(const wgt_network *m, wgi_bin *bin, const wgt_sequence *t,
                                    uint64_t id)
{
    bin->sequence_ids[bin->sequence_count] = id;
    bin->segments[bin->sequence_count++] =
        (wgi_segment){.row = (uint32_t)bin->token_count, .count = (uint32_t)t->count};
    for (size_t i = 0; i < t->count; i++) {
        bin->token_ids[bin->token_count] = t->ids[i];
        bin->position_ids[bin->token_count++] = (int32_t)(m->description.position_offset + i);
    }
}

static inline wgi_view wgt_run_probed(const wgt_network *m, wgt_room *room, wgi_layer_probe *probe,
                                      void *context)
{
    wgi_forward forward = {.bin_memory = room->memory,
                           .lane_memory = room->lanes,
                           .probe = probe,
                           .probe_context = context};
    wgi_view out = {NULL, 0};
    wg_error err = {0};

    EXPECT_OK(wgi_network_run(m->network, &room->bin, &forward, &out, &err));
    if (!out.data) exit(1);
    return out;
}

static inline wgi_view wgt_run(const wgt_network *m, wgt_room *room)
{
    return wgt_run_probed(m, room, NULL, NULL);
}

/* The text as the only one of a bin, in a room that the caller closes. */
static inline wgi_view wgt_run_alone(const wgt_network *m, wgt_room *room, const wgt_sequence *t)
{
    *room = wgt_room_open(m, t->count, 1);
    wgt_sequence_add(m, &room->bin, t, 0);
    return wgt_run(m, room);
}

static inline wgt_sequence wgt_sequence_random(const wgt_network *m, size_t count)
{
    wgt_sequence t = {.ids = malloc(count * sizeof(int32_t)), .count = count};

    for (size_t i = 0; i < count; i++)
        t.ids[i] = (int32_t)wgt_below(m->description.vocabulary_count);
    return t;
}

/* The first `count` rows are those that the text has alone. */
static inline bool wgt_is_alone(const wgt_network *m, const wgt_sequence *t, wgi_view out,
                                size_t row, size_t count)
{
    size_t hidden = m->description.hidden_count;
    bool is_same = true;

    for (size_t i = 0; i < count; i++)
        is_same &= memcmp(out.data + (row + i) * out.stride, t->alone + i * hidden,
                          hidden * sizeof(float)) == 0;
    return is_same;
}

/* ------------------------------------------------------------------------- against float64 */

#define WGT_ERROR_MOST 2e-5 /* of the largest value of a state */

typedef struct wgt_reference {
    const double *states; /* [L + 1][n][H], and what is behind a final norm */
    size_t rows, columns;
    uint32_t layers_seen, worst_state;
    double worst; /* error over the largest value of the state */
} wgt_reference;

static inline void wgt_reference_compare(wgt_reference *r, uint32_t state, wgi_view hidden)
{
    const double *want = r->states + state * r->rows * r->columns;
    double most = 0, worst = 0;

    for (size_t row = 0; row < r->rows; row++)
        for (size_t j = 0; j < r->columns; j++) {
            double value = want[row * r->columns + j];
            double error = fabs((double)hidden.data[row * hidden.stride + j] - value);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
            if (fabs(value) > most) most = fabs(value);
        }
    if (!(worst / most <= r->worst)) {
        r->worst = worst / most;
        r->worst_state = state;
    }
}

static inline void wgt_reference_probe(void *context, uint32_t layer, wgi_view hidden, size_t rows)
{
    wgt_reference *r = context;

    EXPECT_EQ(rows, r->rows);
    EXPECT_EQ(layer, r->layers_seen++);
    wgt_reference_compare(r, layer, hidden);
}

/* The last state is the pass's result. */
static inline void wgt_check_states(const wgt_network *m, const char *folder,
                                    const wgt_sequence *one, const double *values, uint32_t states)
{
    wgt_reference r = {
        .states = values, .rows = one->count, .columns = m->description.hidden_count};
    wgt_room room = wgt_room_open(m, one->count, 1);

    wgt_sequence_add(m, &room.bin, one, 0);
    wgi_view out = wgt_run_probed(m, &room, wgt_reference_probe, &r);
    EXPECT_EQ(r.layers_seen, m->description.layer_count + 1);
    wgt_reference_compare(&r, states - 1, out);
    EXPECT(r.worst <= WGT_ERROR_MOST);
    if (!(r.worst <= WGT_ERROR_MOST))
        fprintf(stderr, "  %s %s %zu tokens, layer %u: %g of the largest value\n", m->backend->isa,
                folder, one->count, r.worst_state, r.worst);
    wgt_room_close(&room);
}

static inline uint32_t wgt_take_u32(const char **at)
{
    uint32_t value;

    memcpy(&value, *at, sizeof(value));
    *at += sizeof(value);
    return value;
}

/* Every text of the folder's reference.bin; tools/make_tiny_models.py has its format. */
static inline void wgt_check_layers(const wgi_backend *backend, const char *folder, bool is_decoder)
{
    wgt_network m = wgt_tiny_open(backend, folder);
    size_t bytes, hidden = m.description.hidden_count;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tiny-%s/reference.bin", WGT_DATA, folder);
    char *data = wgt_slurp(path, &bytes);
    const char *at = data + 8;
    bool is_second = memcmp(data, "WGTBREF2", 8) == 0;
    EXPECT(is_second || memcmp(data, "WGTBREF1", 8) == 0);
    uint32_t layers = wgt_take_u32(&at), width = wgt_take_u32(&at), dim = wgt_take_u32(&at),
             texts = wgt_take_u32(&at), flags = is_second ? wgt_take_u32(&at) : 0;
    uint32_t states = layers + 1 + flags % 2; /* flag 1: behind the final norm, too */
    EXPECT_EQ(m.description.is_decoder, is_decoder);
    EXPECT(is_decoder ? flags % 2 == 1 : flags < 2); /* flag 2: a score for each token */
    EXPECT_EQ(layers, m.description.layer_count);
    EXPECT_EQ(width, hidden);
    EXPECT(texts > 0);
    for (uint32_t t = 0; t < texts && at < data + bytes; t++) {
        wgt_sequence one = {.count = wgt_take_u32(&at)};
        size_t doubles = states * one.count * hidden;
        double *values = malloc(doubles * sizeof(double));

        one.ids = malloc(one.count * sizeof(int32_t));
        memcpy(one.ids, at, one.count * sizeof(int32_t));
        at += one.count * sizeof(int32_t);
        memcpy(values, at, doubles * sizeof(double));
        doubles += (flags & 2 ? one.count : 0) + 6 * hidden + 2 * (size_t)dim;
        at += doubles * sizeof(double);
        wgt_check_states(&m, folder, &one, values, states);
        free(values);
        free(one.ids);
    }
    EXPECT(at == data + bytes);
    free(data);
    wgt_network_close(&m);
}

/* --------------------------------------------------------------------------------- the law */

#define WGT_TEXTS 24

/* Most tokens of a text. */
static inline uint32_t wgt_position_limit(const wgt_network *m)
{
    return m->description.position_count - m->description.position_offset;
}

/* One in six may be as long as the positions allow, the others have `usual` tokens at the most. */
static inline void wgt_texts_make(const wgt_network *m, size_t usual, wgt_sequence texts[WGT_TEXTS])
{
    size_t hidden = m->description.hidden_count;

    for (size_t t = 0; t < WGT_TEXTS; t++) {
        wgt_room room;
        texts[t] = wgt_sequence_random(
            m, t < 3 ? t + 1 : 1 + wgt_below(t % 6 ? usual : wgt_position_limit(m)));
        texts[t].alone = malloc(texts[t].count * hidden * sizeof(float));
        wgi_view out = wgt_run_alone(m, &room, &texts[t]);
        for (size_t i = 0; i < texts[t].count; i++)
            memcpy(texts[t].alone + i * hidden, out.data + i * out.stride, hidden * sizeof(float));
        wgt_room_close(&room);
    }
}

static inline void wgt_texts_free(wgt_sequence texts[WGT_TEXTS])
{
    for (size_t t = 0; t < WGT_TEXTS; t++) {
        free(texts[t].ids);
        free(texts[t].alone);
    }
}

/* Every text of the bin has the bytes it has alone. */
static inline void wgt_expect_alone(const wgt_network *m, const wgi_bin *bin,
                                    const wgt_sequence *texts, wgi_view out)
{
    bool is_same = true;

    for (size_t s = 0; s < bin->sequence_count; s++)
        is_same &= wgt_is_alone(m, &texts[bin->sequence_ids[s]], out, bin->segments[s].row,
                                bin->segments[s].count);
    EXPECT(is_same);
}

/* One task for a crew: the first lane that asks gets it, the others can only help. */
typedef struct wgt_crew_task {
    const wgt_network *m;
    wgt_room *room;
    wgi_crew *crew;
    int is_taken;
    wgi_view out;
    wg_status status;
    pthread_mutex_t lock;
} wgt_crew_task;

static inline wgi_crew_answer wgt_crew_take(void *context, size_t lane, void **task)
{
    wgt_crew_task *t = context;
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

static inline void wgt_crew_run(void *context, size_t lane, void *task)
{
    wgt_crew_task *t = task;
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

static inline wgi_view wgt_run_with_crew(const wgt_network *m, wgt_room *room)
{
    wgt_crew_task task = {.m = m, .room = room, .lock = PTHREAD_MUTEX_INITIALIZER};
    wgi_crew_options options = {
        .lane_count = 3, .take = wgt_crew_take, .run = wgt_crew_run, .context = &task};
    wg_error err;

    pthread_mutex_lock(&task.lock);
    EXPECT_OK(wgi_crew_open(&task.crew, &options, &err));
    pthread_mutex_unlock(&task.lock);
    wgi_crew_close(task.crew);
    EXPECT_EQ(task.status, WG_OK);
    return task.out;
}

static inline void wgt_shuffle(size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i-- > 1;) {
        size_t j = wgt_below(i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Bins of six sizes, the texts in another order each time; every third with three lanes. */
static inline void wgt_check_bins(const wgt_network *m, const wgt_sequence *texts)
{
    for (int round = 0; round < 6; round++) {
        size_t capacity = wgt_position_limit(m) + wgt_below(1500), at = 0, order[WGT_TEXTS];
        wgt_room room = wgt_room_open(m, capacity, 3);

        wgt_shuffle(order, WGT_TEXTS);
        while (at < WGT_TEXTS) {
            wgi_view out;

            room.bin.token_count = room.bin.sequence_count = 0;
            for (; at < WGT_TEXTS && room.bin.token_count + texts[order[at]].count <= capacity;
                 at++)
                wgt_sequence_add(m, &room.bin, &texts[order[at]], order[at]);
            if (round % 3 == 2) {
                out = wgt_run_with_crew(m, &room);
            } else {
                uint64_t before = wgi_alloc_count();
                out = wgt_run(m, &room);
                EXPECT_EQ(wgi_alloc_count(), before);
            }
            if (out.data) wgt_expect_alone(m, &room.bin, texts, out);
        }
        wgt_room_close(&room);
    }
}

/* ---------------------------------------------------------------------------------- faults */

/*
 * Opens and closes; nothing is left behind where that fails. An encoder is opened without the
 * network around it, which would hide what was left.
 */
static inline wg_status wgt_try_open(const wgt_network *m, const wgi_description *description,
                                     wg_error *err)
{
    wgi_network *network = NULL;
    wgi_encoder *encoder = NULL;
    wg_status status = description->is_decoder
                           ? wgi_network_open(&network, description, m->weights, m->backend, err)
                           : wgi_encoder_open(&encoder, description, m->weights, m->backend, err);

    EXPECT((network || encoder) == (status == WG_OK));
    wgi_network_close(network);
    wgi_encoder_close(encoder);
    return status;
}

static inline void wgt_expect_refused(const wgt_network *m, const wgi_description *wrong,
                                      const char *first, const char *second)
{
    wg_error err = {0};

    EXPECT(wgt_try_open(m, wrong, &err) != WG_OK);
    EXPECT_IN(err.message, first);
    EXPECT_IN(err.message, second);
}

static inline void wgt_expect_bad_bin(const wgt_network *m, wgt_room *room, const char *part)
{
    wgi_forward forward = {.bin_memory = room->memory, .lane_memory = room->lanes};
    wgi_view out;
    wg_error err = {0};

    EXPECT_EQ(wgi_network_run(m->network, &room->bin, &forward, &out, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, part);
}

/* Every allocation of opening fails in turn. */
static inline void wgt_check_no_memory(const wgi_backend *backend, const char *folder)
{
    wgt_network m = wgt_tiny_open(backend, folder);

    for (long nth = 1; nth < 1000; nth++) {
        wg_error err = {0};

        wgi_alloc_fail_at(nth);
        wg_status status = wgt_try_open(&m, &m.description, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 10);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
    wgt_network_close(&m);
}

/* ------------------------------------------------------------------------------------ main */

/* The body on every instruction set, and the layers on the reference backend. */
static inline int wgt_network_result(void (*body)(const wgi_backend *backend),
                                     void (*layers)(const wgi_backend *backend))
{
    const wgi_backend *backend = NULL;
    wg_error err;

    wgt_each_isa(body);
    EXPECT_OK(wgi_backend_find(&backend, "reference", WG_ISA_AUTO, &err));
    if (backend) layers(backend);
    return wgt_result();
}

#endif
