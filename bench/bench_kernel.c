/*
 * bench_kernel.c - how fast the operations and the whole forward pass are, beside the FMA peak
 * measured in the same run. Results are JSON lines on standard output.
 *
 * usage: bench_kernel [-m MODEL] [-t THREADS] [-i ISA] [-b BIN] [-c stress|short] [-n TOKENS]
 *                     [-r TRIES] [-f] [-o]
 *   -o   operations only; -f   forward pass only (needs -m, a model directory of a BERT)
 *
 * Operations run on MiniLM's shapes with random weights, one copy a thread, all threads at once.
 * The forward pass takes synthetic ids: stress alternates 60 to 170 and 512 tokens, short has 8 to
 * 83 with a mean near 42; bins are filled in order. Counted work: 2 x multiply-adds of the linear
 * layers and of Q K^T and P V over real tokens. The best of TRIES is given: other load only ever
 * takes time away.
 *
 * Threads: THREADS workers, a bin at a time each, nothing shared but the next bin's number.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "model/model.h"
#include "peak.h"

typedef struct settings {
    const char *model, *corpus;
    wg_isa isa;
    int threads, tries;
    size_t bin_tokens, total_tokens;
    int has_operations, has_forward;
    double peak;
} settings;

static uint64_t seed = 1;

static uint32_t random_below(uint32_t bound)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % bound);
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_kernel: %s\n", what);
    exit(3);
}

static void *room(size_t bytes)
{
    void *memory = wgi_malloc_aligned(WGI_BYTE_ALIGN, bytes);

    if (!memory) fail("out of memory");
    memset(memory, 0, bytes);
    return memory;
}

/* ----------------------------------------------------------------- all threads do the same */

typedef struct team {
    const settings *set;
    void (*body)(void *context, int thread);
    void *context;
    pthread_barrier_t gate;
} team;

typedef struct member {
    team *team;
    int index;
    double begin, end; /* of the last try */
    double busy;       /* processor time in it */
} member;

/* Seconds: on the clock, from the first start to the last end; and of the processor, the most
 * that one thread used. On a machine with other load the second is the one to compare. */
typedef struct spent {
    double clock, busy;
} spent;

static double thread_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *member_run(void *context)
{
    member *self = context;

    for (int i = 0; i < self->team->set->tries; i++) {
        (void)pthread_barrier_wait(&self->team->gate);
        double busy = thread_seconds();
        self->begin = wgb_seconds();
        self->team->body(self->team->context, self->index);
        self->end = wgb_seconds();
        self->busy = thread_seconds() - busy;
        (void)pthread_barrier_wait(&self->team->gate);
    }
    return NULL;
}

/* The best try of each. prepare (may be NULL) runs between tries. */
static spent team_best(const settings *set, void (*body)(void *, int), void (*prepare)(void *),
                       void *context)
{
    team shared = {.set = set, .body = body, .context = context};
    pthread_t ids[256];
    member members[256];
    spent best = {1e9, 1e9};

    (void)pthread_barrier_init(&shared.gate, NULL, (unsigned)set->threads + 1);
    for (int i = 0; i < set->threads; i++) {
        members[i] = (member){.team = &shared, .index = i};
        if (pthread_create(&ids[i], NULL, member_run, &members[i])) fail("no thread");
    }
    for (int i = 0; i < set->tries; i++) {
        if (prepare) prepare(context);
        (void)pthread_barrier_wait(&shared.gate);
        (void)pthread_barrier_wait(&shared.gate);
        double begin = members[0].begin, end = members[0].end, busy = members[0].busy;
        for (int j = 1; j < set->threads; j++) {
            if (members[j].begin < begin) begin = members[j].begin;
            if (members[j].end > end) end = members[j].end;
            if (members[j].busy > busy) busy = members[j].busy;
        }
        if (end - begin < best.clock) best.clock = end - begin;
        if (busy < best.busy) best.busy = busy;
    }
    for (int i = 0; i < set->threads; i++)
        (void)pthread_join(ids[i], NULL);
    (void)pthread_barrier_destroy(&shared.gate);
    return best;
}

/* ------------------------------------------------------------------------------ operations */

static wgi_tensor random_tensor(uint64_t rows, uint64_t columns)
{
    wgi_tensor tensor = {.name = "random",
                         .dtype_name = "F32",
                         .dtype = WGI_DTYPE_F32,
                         .rank = columns ? 2 : 1,
                         .shape = {rows, columns}};
    size_t count = (size_t)wgi_tensor_count(&tensor);
    float *data;

    if (!columns) count = (size_t)rows;
    tensor.bytes = count * sizeof(float);
    data = room(tensor.bytes);
    for (size_t i = 0; i < count; i++)
        data[i] = ((float)random_below(2001) - 1000.0f) * 1e-4f;
    tensor.data = data;
    return tensor;
}

typedef struct operation {
    const wgi_backend *backend;
    wgi_linear *linear;
    wgi_attention *attention;
    wgi_norm norm;
    wgi_activation activation;
    int has_residual;
    size_t rows, repeats, bin_rows, count; /* count: rows of each segment (attention) */
    wgi_view in[256], out[256];
    void *scratch[256], *qkv[256];
} operation;

static void linear_body(void *context, int thread)
{
    operation *op = context;
    wgi_view residual = op->has_residual ? op->out[thread] : (wgi_view){NULL, 0};

    for (size_t i = 0; i < op->repeats; i++)
        op->backend->linear(op->backend, op->linear, op->in[thread], op->out[thread], residual,
                            op->activation, op->rows, op->scratch[thread]);
}

static void qkv_body(void *context, int thread)
{
    operation *op = context;

    for (size_t i = 0; i < op->repeats; i++)
        op->backend->qkv(op->backend, op->attention, op->in[thread], op->qkv[thread], op->bin_rows,
                         i % 8 * op->rows, op->rows, op->scratch[thread]);
}

static void attend_body(void *context, int thread)
{
    operation *op = context;

    for (size_t row = 0; row + op->count <= op->bin_rows; row += op->count)
        for (size_t first = 0; first < op->count; first += op->backend->attend_rows)
            for (uint32_t head = 0; head < 12; head++) {
                size_t left = op->count - first;
                wgi_attend_item item = {
                    .segment = {.row = (uint32_t)row, .count = (uint32_t)op->count},
                    .first = (uint32_t)first,
                    .key_head = head};
                item.count =
                    (uint32_t)(left < op->backend->attend_rows ? left : op->backend->attend_rows);
                op->backend->attend(op->backend, op->attention, op->qkv[thread], op->bin_rows,
                                    &item, op->out[thread], op->scratch[thread]);
            }
}

static void norm_body(void *context, int thread)
{
    operation *op = context;

    for (size_t i = 0; i < op->repeats; i++)
        op->backend->layer_norm(op->backend, &op->norm, op->out[thread], op->rows);
}

static void show(const settings *set, const operation *op, const char *name, double work,
                 spent time)
{
    double all = work * set->threads * 1e-9;

    printf("{\"operation\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"gflops\": %.1f, "
           "\"peak\": %.1f, \"percent\": %.1f, \"percent_busy\": %.1f}\n",
           name, op->backend->isa, set->threads, all / time.clock, set->peak,
           100 * all / time.clock / set->peak, 100 * all / time.busy / set->peak);
}

static void bench_linear(const settings *set, operation *op, const char *name, size_t inputs,
                         size_t outputs)
{
    wgi_tensor weight = random_tensor(outputs, inputs), bias = random_tensor(outputs, 0);
    wg_error err;

    if (op->backend->linear_pack(op->backend, &op->linear, &weight, &bias, &err) != WG_OK)
        fail(err.message);
    for (int i = 0; i < set->threads; i++) {
        op->in[i].stride = wgi_view_stride(inputs);
        op->out[i].stride = wgi_view_stride(outputs);
    }
    op->repeats = 8;
    show(set, op, name, 2.0 * (double)(inputs * outputs * op->rows * op->repeats),
         team_best(set, linear_body, NULL, op));
    op->backend->linear_free(op->linear);
    wgi_free((void *)weight.data);
    wgi_free((void *)bias.data);
}

static void bench_attention(const settings *set, operation *op)
{
    wgi_tensor weight[3], bias[3];
    wgi_attention_weights weights = {.shape = {12, 12, 32, 0, 0.17677669f}};
    const size_t counts[] = {16, 42, 128, 256, 512, 2048};
    wg_error err;

    for (int i = 0; i < 3; i++) {
        weight[i] = random_tensor(384, 384);
        bias[i] = random_tensor(384, 0);
    }
    weights.query = &weight[0], weights.key = &weight[1], weights.value = &weight[2];
    weights.query_bias = &bias[0], weights.key_bias = &bias[1], weights.value_bias = &bias[2];
    if (op->backend->attention_pack(op->backend, &op->attention, &weights, &err) != WG_OK)
        fail(err.message);
    op->bin_rows = 2048;
    for (int i = 0; i < set->threads; i++) {
        op->in[i].stride = op->out[i].stride = 384;
        op->qkv[i] = room(op->backend->qkv_bytes(op->attention, op->bin_rows));
        wgi_free(op->scratch[i]);
        op->scratch[i] = room(op->backend->scratch_bytes(op->backend, op->attention));
    }
    op->repeats = 8;
    show(set, op, "qkv 384->1152", 2.0 * 384 * 1152 * (double)(op->rows * op->repeats),
         team_best(set, qkv_body, NULL, op));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char name[40];
        op->count = counts[i];
        double segments = (double)(op->bin_rows / op->count), length = (double)op->count;
        (void)snprintf(name, sizeof(name), "attend %zu", op->count);
        show(set, op, name, 4.0 * segments * length * length * 384,
             team_best(set, attend_body, NULL, op));
    }
    op->backend->attention_free(op->attention);
    for (int i = 0; i < 3; i++) {
        wgi_free((void *)weight[i].data);
        wgi_free((void *)bias[i].data);
    }
}

static void bench_operations(const settings *set, const wgi_backend *backend)
{
    static operation op;
    static float ones[1536];

    op = (operation){.backend = backend, .rows = backend->block_rows};
    for (size_t i = 0; i < 1536; i++)
        ones[i] = 1;
    for (int i = 0; i < set->threads; i++) {
        op.in[i].data = room(2048 * 1536 * sizeof(float));
        op.out[i].data = room(2048 * 1536 * sizeof(float));
        op.scratch[i] = room(backend->scratch_bytes(backend, NULL));
        for (size_t j = 0; j < 2048 * 1536; j++)
            op.in[i].data[j] = op.out[i].data[j] = ((float)random_below(2001) - 1000.0f) * 1e-3f;
    }
    bench_linear(set, &op, "linear 384->1536", 384, 1536);
    op.activation = WGI_ACTIVATION_GELU;
    bench_linear(set, &op, "linear 384->1536 gelu", 384, 1536);
    op.activation = WGI_ACTIVATION_NONE;
    op.has_residual = 1;
    bench_linear(set, &op, "linear 384->384 residual", 384, 384);
    bench_linear(set, &op, "linear 1536->384 residual", 1536, 384);
    op.norm = (wgi_norm){.weight = ones, .bias = ones, .count = 384, .epsilon = 1e-12f};
    for (int i = 0; i < set->threads; i++)
        op.out[i].stride = 384;
    op.repeats = 16;
    /* Counted as if a norm were eight operations a float. */
    show(set, &op, "layer_norm 384", 8.0 * 384 * (double)(op.rows * op.repeats),
         team_best(set, norm_body, NULL, &op));
    bench_attention(set, &op);
}

/* --------------------------------------------------------------------------------- forward */

typedef struct forward_bench {
    const wgi_encoder *encoder;
    wgi_bin *bins;
    size_t bin_count;
    atomic_size_t next;
    wgi_forward forward[256];
    void *lanes[256];
} forward_bench;

static void forward_prepare(void *context)
{
    atomic_store(&((forward_bench *)context)->next, 0);
}

static void forward_body(void *context, int thread)
{
    forward_bench *bench = context;
    wg_error err;
    wgi_view hidden;

    for (;;) {
        size_t i = atomic_fetch_add(&bench->next, 1);
        if (i >= bench->bin_count) return;
        if (wgi_encoder_run(bench->encoder, &bench->bins[i], &bench->forward[thread], &hidden,
                            &err) != WG_OK)
            fail(err.message);
    }
}

static uint32_t next_length(const settings *set, size_t index, uint32_t most)
{
    uint32_t length = strcmp(set->corpus, "short") == 0 ? 8 + (random_below(39) + random_below(39))
                      : index % 2                       ? 512
                                                        : 60 + random_below(111);

    return length < most ? length : most;
}

/* Bins filled in order; returns their number and the work in them. */
static size_t make_bins(const settings *set, const wgi_description *d, wgi_bin *bins,
                        size_t capacity, double *tokens, double *work)
{
    size_t count = 0, index = 0;
    double h = d->hidden_count, linear = 2 * h * (4 * h + 2 * (double)d->feed_forward_count);

    *tokens = *work = 0;
    while (*tokens < (double)set->total_tokens) {
        uint32_t length = next_length(set, index++, d->position_count);
        wgi_bin *bin = count ? &bins[count - 1] : NULL;

        if (!bin || bin->token_count + length > set->bin_tokens) {
            if (count == capacity) break;
            bin = &bins[count++];
            bin->token_capacity = bin->sequence_capacity = set->bin_tokens;
            bin->token_ids = room(set->bin_tokens * sizeof(int32_t));
            bin->type_ids = room(set->bin_tokens * sizeof(int32_t));
            bin->position_ids = room(set->bin_tokens * sizeof(int32_t));
            bin->segments = room(set->bin_tokens * sizeof(wgi_segment));
        }
        bin->segments[bin->sequence_count++] =
            (wgi_segment){.row = (uint32_t)bin->token_count, .count = length};
        for (uint32_t i = 0; i < length; i++) {
            bin->token_ids[bin->token_count] = (int32_t)random_below((uint32_t)d->vocabulary_count);
            bin->position_ids[bin->token_count++] = (int32_t)i;
        }
        *tokens += length;
        *work += d->layer_count * (length * linear + 4 * (double)length * length * h);
    }
    return count;
}

static void bench_forward(const settings *set, const wgi_backend *backend)
{
    static wgi_bin bins[4096];
    static forward_bench bench;
    wgi_description description;
    wgi_weights *weights;
    wgi_encoder *encoder;
    wgi_plan plan;
    double tokens, work, begin = wgb_seconds(), opened, peak;
    spent time;
    wg_error err;

    if (wgi_description_load(&description, set->model, &err) != WG_OK ||
        wgi_weights_open(&weights, set->model, &err) != WG_OK ||
        wgi_encoder_open(&encoder, &description, weights, backend, &err) != WG_OK)
        fail(err.message);
    opened = wgb_seconds() - begin;
    bench = (forward_bench){.encoder = encoder, .bins = bins};
    bench.bin_count = make_bins(set, &description, bins, 4096, &tokens, &work);
    plan = wgi_encoder_plan(encoder, set->bin_tokens, 512);
    for (int i = 0; i < set->threads; i++) {
        bench.lanes[i] = room(plan.lane_bytes);
        bench.forward[i] =
            (wgi_forward){.bin_memory = room(plan.bin_bytes), .lane_memory = &bench.lanes[i]};
    }
    time = team_best(set, forward_body, forward_prepare, &bench);
    peak = wgb_peak(set->threads, 10);
    if (set->peak > peak) peak = set->peak;
    printf("{\"forward\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"bin\": %zu, \"block\": %zu, "
           "\"tokens\": %.0f, \"tokens_per_s\": %.0f, \"gflops\": %.1f, \"peak\": %.1f, "
           "\"percent\": %.1f, \"percent_busy\": %.1f, \"open_ms\": %.0f, \"bin_bytes\": %zu, "
           "\"lane_bytes\": %zu}\n",
           set->corpus, backend->isa, set->threads, set->bin_tokens, backend->block_rows, tokens,
           tokens / time.clock, work / time.clock * 1e-9, peak,
           100 * work / time.clock * 1e-9 / peak, 100 * work / time.busy * 1e-9 / peak,
           opened * 1e3, plan.bin_bytes, plan.lane_bytes);
    wgi_encoder_close(encoder);
    wgi_weights_close(weights);
}

/* ------------------------------------------------------------------------------------ main */

static wg_isa isa_of(const char *name)
{
    if (strcmp(name, "plain") == 0) return WG_ISA_PLAIN;
    if (strcmp(name, "avx2") == 0) return WG_ISA_AVX2;
    if (strcmp(name, "avx512") == 0) return WG_ISA_AVX512;
    fail("ISA is plain, avx2 or avx512");
    return WG_ISA_AUTO;
}

int main(int argc, char **argv)
{
    settings set = {.corpus = "stress",
                    .threads = (int)sysconf(_SC_NPROCESSORS_ONLN),
                    .tries = 5,
                    .bin_tokens = 2048,
                    .total_tokens = 40000,
                    .has_operations = 1,
                    .has_forward = 1};
    const wgi_backend *backend;
    wg_error err;
    int option;

    while ((option = getopt(argc, argv, "m:t:i:b:c:n:r:fo")) != -1) {
        if (option == 'm') set.model = optarg;
        if (option == 't') set.threads = (int)strtol(optarg, NULL, 10);
        if (option == 'i') set.isa = isa_of(optarg);
        if (option == 'b') set.bin_tokens = strtoull(optarg, NULL, 10);
        if (option == 'c') set.corpus = optarg;
        if (option == 'n') set.total_tokens = strtoull(optarg, NULL, 10);
        if (option == 'r') set.tries = (int)strtol(optarg, NULL, 10);
        if (option == 'f') set.has_operations = 0;
        if (option == 'o') set.has_forward = 0;
        if (option == '?') return 2;
    }
    if (set.threads < 1 || set.threads > 256 || set.tries < 1 || set.bin_tokens < 512)
        fail("THREADS is 1 to 256, TRIES at least 1, BIN at least 512");
    if (wgi_backend_find(&backend, NULL, set.isa, &err) != WG_OK) fail(err.message);
    set.peak = wgb_peak(set.threads, 10);
    if (set.has_operations) bench_operations(&set, backend);
    if (set.has_forward && set.model) bench_forward(&set, backend);
    return 0;
}
