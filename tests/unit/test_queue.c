/*
 * test_queue.c - the pages of the queue: bounded, given back, kept for the first class, in order.
 * LIBRARIES: wgi_engine wgi_base
 */
#include "base/alloc.h"
#include "engine/queue.h"
#include "harness.h"

static const int32_t ids[1000];

static wgi_queue_answer push(wgi_queue *queue, uint64_t id, uint64_t count, uint32_t class_index)
{
    wgi_lane *lane = wgi_queue_enter(queue);
    wg_sequence sequence = {
        .id = id, .token_ids = ids, .token_count = count, .class_index = class_index};
    uint64_t done = 0;
    wgi_queue_answer answer = wgi_queue_push(queue, lane, &sequence, 1, &done, 1);

    EXPECT_EQ(done, answer == WGI_QUEUE_TAKEN);
    wgi_queue_leave(lane);
    return answer;
}

static uint64_t release_all(wgi_queue *queue, wgi_record_list *list, uint64_t *next_id)
{
    uint64_t count = 0;
    wgi_record *record;

    while ((record = wgi_record_list_pop(list)) != NULL) {
        EXPECT_EQ(record->id, (*next_id)++);
        wgi_queue_release(queue, wgi_queue_page(queue, record), 1);
        count++;
    }
    return count;
}

static void test_layout(void)
{
    size_t bytes, count;

    wgi_queue_layout(100, 1 << 20, &bytes, &count);
    EXPECT_EQ(bytes, 65536);
    EXPECT_EQ(count, 16);
    wgi_queue_layout(100000, 1 << 20, &bytes, &count); /* a longest text of 800,056 bytes */
    EXPECT(bytes >= 800056 && bytes * count <= 1 << 20);
    EXPECT_EQ(count, 1);
    wgi_queue_layout(1000, 10, &bytes, &count); /* at least one sequence */
    EXPECT(bytes >= 8056 && bytes < 8192);
    EXPECT_EQ(count, 1);
}

static void test_bound(void)
{
    wgi_queue queue;
    wgi_record_list list = {0};
    wgi_record_list *lists[1] = {&list};
    uint64_t in = 0, out = 0;
    wg_error err;

    EXPECT_OK(wgi_queue_init(&queue, 8192, 4, 1, &err));
    for (int round = 0; round < 50; round++) {
        uint64_t before = in;

        while (push(&queue, in, 1 + in % 900, 0) == WGI_QUEUE_TAKEN)
            in++;
        EXPECT(in > before);
        EXPECT_EQ(atomic_load(&queue.free_count), 0);
        wgi_queue_drain(&queue, lists);
        EXPECT_EQ(list.record_count, in - before);
        EXPECT_EQ(release_all(&queue, &list, &out), in - before);
        EXPECT_EQ(list.token_count, 0);
        EXPECT(atomic_load(&queue.free_count) >= 3); /* one is still the lane's */
        wgi_queue_reclaim(&queue);
        EXPECT_EQ(atomic_load(&queue.free_count), 4);
    }
    EXPECT_EQ(out, in);
    EXPECT_EQ(wgi_queue_pushed(&queue), in);
    EXPECT_EQ(wgi_queue_bytes_peak(&queue), 4 * 8192);
    wgi_queue_close(&queue);
    EXPECT_EQ(push(&queue, in, 1, 0), WGI_QUEUE_CLOSED);
    wgi_queue_empty(&queue);
    wgi_queue_fini(&queue);
}

/* Bulk fills what it may; the first class still gets in. */
static void test_reserve(void)
{
    const wg_engine_class classes[2] = {{.priority = 7}, {.priority = 2}};
    wgi_queue queue;
    wg_error err;
    uint64_t bulk = 0, first = 0;

    EXPECT_OK(wgi_queue_init(&queue, 8192, 8, 2, &err));
    wgi_queue_reserve(&queue, classes);
    while (push(&queue, 0, 900, 0) == WGI_QUEUE_TAKEN)
        bulk++;
    EXPECT_EQ(atomic_load(&queue.free_count), 2);
    while (push(&queue, 0, 900, 1) == WGI_QUEUE_TAKEN)
        first++;
    EXPECT_EQ(atomic_load(&queue.free_count), 0);
    EXPECT_EQ(bulk, 6 * 2);
    EXPECT_EQ(first, 2 * 2);
    wgi_queue_fini(&queue);
}

static void test_memory(void)
{
    wgi_queue queue;
    wg_error err;

    for (long nth = 1; nth <= 2; nth++) {
        wgi_alloc_fail_at(nth);
        EXPECT_EQ(wgi_queue_init(&queue, 8192, 4, 1, &err), WG_ERR_NO_MEMORY);
        wgi_alloc_fail_at(0);
    }
    EXPECT_EQ(wgi_queue_init(&queue, SIZE_MAX / 2, 4, 1, &err), WG_ERR_NO_MEMORY);
}

int main(void)
{
    test_layout();
    test_bound();
    test_reserve();
    test_memory();
    return wgt_result();
}
