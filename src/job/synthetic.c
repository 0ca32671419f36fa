/*
 * synthetic.c - forward passes over made-up tokens; see synthetic.h.
 *
 * Texts of the longest allowed length fill the bin, since attention over them costs most. Token ids
 * are spread over the vocabulary, so that the embedding table is read as a real corpus reads it.
 */
#include "job/synthetic.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crew.h"
#include "base/os_clock.h"

typedef struct synthetic_lane {
    wgi_bin bin;
    void *bin_memory;
} synthetic_lane;

typedef struct synthetic {
    const wgi_footprint *footprint;
    wgi_plan plan;
    synthetic_lane *lanes; /* [lane_count] */
    void **lane_memory;    /* [lane_count] */
    wgi_crew *crew;
    pthread_mutex_t lock; /* guards the four below */
    uint32_t next;        /* lane whose bin is handed out next */
    bool is_ready;        /* crew is set */
    wg_status failure;
    wg_error failure_error;
} synthetic;

static wg_status fill_bin(const wgi_footprint *footprint, wgi_bin *bin, size_t run_tokens,
                          wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t vocabulary = footprint->model->description.vocabulary_count;
    size_t text = footprint->longest < run_tokens ? footprint->longest : run_tokens;
    int32_t *ids = wgi_malloc(text * sizeof(int32_t));
    uint64_t state = 1;

    if (!ids) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu token ids", text);
    WGI_TRY(wgi_bin_init(bin, footprint->bin_tokens, footprint->bin_tokens / text + 2, err));
    while (bin->token_count < run_tokens) {
        size_t left = run_tokens - bin->token_count;
        for (size_t i = 0; i < text; i++) {
            /* A linear congruential generator (Knuth, MMIX) is random enough for a table look-up.
             */
            state = state * 6364136223846793005u + 1442695040888963407u;
            ids[i] = (int32_t)((state >> 33) % vocabulary);
        }
        wgi_bin_append(bin, bin->sequence_count, ids, NULL, (uint32_t)(left < text ? left : text),
                       footprint->model->description.position_offset);
    }

cleanup:
    wgi_free(ids);
    return status;
}

static wgi_crew_answer take_lane(void *context, size_t lane, void **task)
{
    synthetic *s = context;
    wgi_crew_answer answer = WGI_CREW_END;

    (void)lane;
    pthread_mutex_lock(&s->lock);
    if (!s->is_ready)
        answer = WGI_CREW_NONE;
    else if (s->failure == WG_OK && s->next < s->footprint->lane_count) {
        *task = &s->lanes[s->next++];
        answer = WGI_CREW_TASK;
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}

static void run_lane(void *context, size_t lane, void *task)
{
    synthetic *s = context;
    synthetic_lane *work = task;
    wgi_forward forward = {.bin_memory = work->bin_memory,
                           .lane_memory = s->lane_memory,
                           .crew = s->crew,
                           .lane = lane};
    wgi_view hidden;
    wg_error err = {0};

    wg_status status =
        wgi_network_run(s->footprint->model->network, &work->bin, &forward, &hidden, &err);
    if (status == WG_OK) return;
    pthread_mutex_lock(&s->lock);
    s->failure = status;
    s->failure_error = err;
    pthread_mutex_unlock(&s->lock);
}

/* Everything a worker holds, every page of it written once. */
static wg_status allocate(synthetic *s, size_t run_tokens, wg_error *err)
{
    uint32_t count = s->footprint->lane_count;

    s->lanes = wgi_calloc(count, sizeof(*s->lanes));
    s->lane_memory = wgi_calloc(count, sizeof(*s->lane_memory));
    if (!s->lanes || !s->lane_memory) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for lanes");
    for (uint32_t i = 0; i < count; i++) {
        s->lanes[i].bin_memory = wgi_malloc_aligned(WGI_BYTE_ALIGN, s->plan.bin_bytes);
        s->lane_memory[i] = wgi_malloc_aligned(WGI_BYTE_ALIGN, s->plan.lane_bytes);
        if (!s->lanes[i].bin_memory || !s->lane_memory[i])
            return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a bin of %zu tokens",
                            s->footprint->bin_tokens);
        memset(s->lanes[i].bin_memory, 0, s->plan.bin_bytes);
        memset(s->lane_memory[i], 0, s->plan.lane_bytes);
        wg_status status = fill_bin(s->footprint, &s->lanes[i].bin, run_tokens, err);
        if (status != WG_OK) return status;
    }
    return WG_OK;
}

wg_status wgi_synthetic_run(const wgi_footprint *footprint, size_t run_tokens, double *seconds,
                            wg_error *err)
{
    wg_status status = WG_OK;
    synthetic s = {.footprint = footprint,
                   .plan = wgi_network_plan(footprint->model->network, footprint->bin_tokens,
                                            footprint->longest)};

    pthread_mutex_init(&s.lock, NULL);
    WGI_TRY(allocate(&s, run_tokens, err));
    WGI_TRY(wgi_crew_open(
        &s.crew,
        &(wgi_crew_options){
            .lane_count = footprint->lane_count, .take = take_lane, .run = run_lane, .context = &s},
        err));
    uint64_t begin = wgi_clock_ns();
    pthread_mutex_lock(&s.lock);
    s.is_ready = true;
    pthread_mutex_unlock(&s.lock);
    wgi_crew_wake(s.crew);
    wgi_crew_join(s.crew);
    *seconds = (double)(wgi_clock_ns() - begin) * 1e-9;
    status = s.failure;
    if (status != WG_OK && err) *err = s.failure_error;

cleanup:
    pthread_mutex_lock(&s.lock); /* lanes of a crew that could not open whole must see the end */
    s.is_ready = true;
    s.next = footprint->lane_count;
    pthread_mutex_unlock(&s.lock);
    if (s.crew) wgi_crew_wake(s.crew);
    wgi_crew_close(s.crew);
    for (uint32_t i = 0; i < footprint->lane_count; i++) {
        if (s.lanes) wgi_free(s.lanes[i].bin_memory);
        if (s.lanes) wgi_bin_fini(&s.lanes[i].bin);
        if (s.lane_memory) wgi_free(s.lane_memory[i]);
    }
    wgi_free(s.lanes);
    wgi_free(s.lane_memory);
    wgi_alloc_trim(); /* else the heap keeps it, and the next try finds less than there is */
    pthread_mutex_destroy(&s.lock);
    return status;
}
