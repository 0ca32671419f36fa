/*
 * test_window.c - the documents in flight: each once, in input order, bounded, whatever order they
 * are finished in; failures of the reader among them; stop wakes everybody. LABELS: quick stress
 */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "job/window.h"

#define DOCUMENTS 20000
#define WORKERS   3

typedef struct run {
    wgi_window window;
    size_t documents;
    atomic_size_t waits;
    atomic_size_t most_in_flight;
    atomic_ulong in_flight;
} run;

static void count_wait(void *context)
{
    run *r = context;

    atomic_fetch_add(&r->waits, 1);
}

static void *reader(void *argument)
{
    run *r = argument;
    wg_error err;
    char text[64], id[32];

    for (size_t i = 0; i < r->documents; i++) {
        (void)snprintf(text, sizeof(text), "text of %zu", i);
        (void)snprintf(id, sizeof(id), "\"id-%zu\"", i);
        wg_document document = {.ordinal = i,
                                .id = id,
                                .id_bytes = strlen(id),
                                .source = "s",
                                .source_bytes = 1,
                                .text = text,
                                .text_bytes = strlen(text),
                                .reason = ""};
        if (i % 7 == 3) {
            document.failure = WG_FAILURE_BAD_JSON;
            document.reason = "broken";
        }
        if (wgi_window_add(&r->window, &document, count_wait, r, &err) != WG_OK) break;
        unsigned long now = atomic_fetch_add(&r->in_flight, 1) + 1;
        size_t most = atomic_load(&r->most_in_flight);
        while (now > most && !atomic_compare_exchange_weak(&r->most_in_flight, &most, now)) {
        }
    }
    wgi_window_input_done(&r->window);
    return NULL;
}

/* Takes its time with some, so that documents are finished out of order. */
static void *worker(void *argument)
{
    run *r = argument;
    wgi_entry *entry;

    while ((entry = wgi_window_claim(&r->window))) {
        EXPECT(entry->failure == WG_FAILURE_NONE);
        EXPECT(wgi_window_find(&r->window, entry->ordinal) == entry);
        if (entry->ordinal % 11 == 0) (void)sched_yield();
        if (entry->ordinal % 501 == 0) (void)usleep(200);
        wgi_window_finish(&r->window, entry);
    }
    return NULL;
}

static void run_window(size_t documents, size_t count_max, size_t bytes_max)
{
    run r = {.documents = documents};
    pthread_t threads[WORKERS + 1];
    wg_error err;
    uint64_t next = 0;

    EXPECT_OK(wgi_window_init(&r.window, count_max, bytes_max, &err));
    EXPECT_EQ(pthread_create(&threads[WORKERS], NULL, reader, &r), 0);
    for (int i = 0; i < WORKERS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, worker, &r), 0);
    while (next < documents) {
        wgi_entry *entry = wgi_window_take(&r.window, 10);
        char want[64];
        if (!entry) continue;
        EXPECT_EQ(entry->ordinal, next);
        (void)snprintf(want, sizeof(want), "\"id-%llu\"", (unsigned long long)next);
        EXPECT_TEXT(entry->id.data, want);
        EXPECT_EQ(entry->failure != WG_FAILURE_NONE, next % 7 == 3);
        if (entry->failure == WG_FAILURE_NONE) {
            (void)snprintf(want, sizeof(want), "text of %llu", (unsigned long long)next);
            EXPECT_TEXT(entry->text.data, want);
        }
        next++;
        atomic_fetch_sub(&r.in_flight, 1);
        wgi_window_recycle(&r.window, entry);
    }
    EXPECT(wgi_window_take(&r.window, 0) == NULL);
    for (int i = 0; i <= WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    EXPECT(wgi_window_is_drained(&r.window));
    EXPECT(atomic_load(&r.most_in_flight) <= count_max + 2);
    if (documents > 1000 && count_max < 100) EXPECT(atomic_load(&r.waits) > 0);
    wgi_window_fini(&r.window);
}

static void *stuck_reader(void *argument)
{
    run *r = argument;
    wg_document document = {
        .id = "1", .id_bytes = 1, .source = "", .text = "x", .text_bytes = 1, .reason = ""};
    wg_error err;

    while (wgi_window_add(&r->window, &document, NULL, NULL, &err) == WG_OK)
        document.ordinal++;
    EXPECT_EQ(err.status, WG_ERR_CLOSED);
    return NULL;
}

static void *stuck_claimer(void *argument)
{
    run *r = argument;

    while (wgi_window_claim(&r->window)) {
    }
    return NULL;
}

static void run_stop(void)
{
    run r = {0};
    pthread_t threads[2];
    wg_error err;

    EXPECT_OK(wgi_window_init(&r.window, 4, SIZE_MAX, &err));
    EXPECT_EQ(pthread_create(&threads[0], NULL, stuck_reader, &r), 0);
    EXPECT_EQ(pthread_create(&threads[1], NULL, stuck_claimer, &r), 0);
    EXPECT(wgi_window_take(&r.window, 20) == NULL); /* nobody finishes one */
    wgi_window_stop(&r.window);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    wgi_window_fini(&r.window);
}

/* Adds `count` documents of `bytes` of text, then lets all of them through. */
static void pass_through(wgi_window *window, uint64_t *ordinal, size_t count, size_t bytes)
{
    static char text[40000];
    size_t added = 0;
    wgi_entry *entry;
    wg_error err;

    memset(text, 'x', sizeof(text));
    for (; added < count && window->bytes < window->bytes_max; added++) {
        wg_document document = {.ordinal = (*ordinal)++,
                                .id = "1",
                                .id_bytes = 1,
                                .source = "",
                                .text = text,
                                .text_bytes = bytes,
                                .reason = ""};
        EXPECT_OK(wgi_window_add(window, &document, NULL, NULL, &err));
    }
    for (; added > 0; added--) {
        entry = wgi_window_claim(window);
        wgi_window_finish(window, entry);
        entry = wgi_window_take(window, 0);
        wgi_window_recycle(window, entry);
        EXPECT(window->bytes + window->kept_bytes <= window->bytes_max + bytes * 2);
    }
}

/* Entries that are kept count too: many small documents and a few large ones, in turn. */
static void run_sizes(void)
{
    wgi_window window;
    uint64_t ordinal = 0;
    wg_error err;

    wgt_seed_set(7);
    EXPECT_OK(wgi_window_init(&window, 100000, 1 << 20, &err));
    for (int i = 0; i < 300; i++)
        pass_through(&window, &ordinal, 1 + wgt_below(1000),
                     wgt_below(2) ? 30 : 1 + wgt_below(40000));
    EXPECT(window.free_entries != NULL); /* some are used again */
    wgi_window_fini(&window);
}

int main(void)
{
    run_window(DOCUMENTS, 64, SIZE_MAX);
    run_window(DOCUMENTS / 10, 5000, 4000); /* bounded by bytes; the ring grows */
    run_window(5000, 5000, SIZE_MAX);
    run_window(1, 8, SIZE_MAX);
    run_window(0, 8, SIZE_MAX);
    run_stop();
    run_sizes();
    return wgt_result();
}
