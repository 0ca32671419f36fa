/*
 * test_pace.c - each rule of the window by itself, with times written out.
 * LIBRARIES: wgi_engine wgi_base
 */
#include "engine/pace.h"
#include "harness.h"

#include <stdbool.h>

#define MS    1000000u
#define NEVER UINT64_MAX

static wgi_pace make(wg_engine_window window, uint32_t class_count)
{
    wg_engine_options options = {.bin_tokens = 1000,
                                 .lookahead_tokens = 32000,
                                 .worker_count = 1,
                                 .window = window,
                                 .class_count = class_count};
    wgi_pace pace;

    wgi_pace_init(&pace, &options);
    return pace;
}

/* A device of 2 ms + 10 us a token, as it would be learnt. */
static void teach(wgi_pace *pace)
{
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t tokens = 100 + i % 5 * 200;
        wgi_pace_served(pace, tokens, 2 * MS + tokens * 10000);
    }
}

static wgi_pace_view pending(uint64_t tokens, uint64_t since)
{
    return (wgi_pace_view){.tokens = tokens,
                           .sequences = tokens / 20 + 1,
                           .arrival_ns = since,
                           .deadline_ns = NEVER,
                           .free_ns = NEVER};
}

static void test_learning(void)
{
    wgi_pace pace = make(WG_WINDOW_ADAPTIVE, 1);

    EXPECT_EQ(wgi_pace_service_ns(&pace, 500), 0);
    teach(&pace);
    EXPECT(wgi_pace_service_ns(&pace, 500) > 6.9 * MS &&
           wgi_pace_service_ns(&pace, 500) < 7.1 * MS);
    EXPECT(wgi_pace_service_ns(&pace, 0) > 1.9 * MS && wgi_pace_service_ns(&pace, 0) < 2.1 * MS);
    /* It follows a device that became twice as fast. */
    for (uint64_t i = 0; i < 200; i++)
        wgi_pace_served(&pace, 100 + i % 5 * 200, 1 * MS + (100 + i % 5 * 200) * 5000);
    EXPECT(wgi_pace_service_ns(&pace, 500) > 3.4 * MS &&
           wgi_pace_service_ns(&pace, 500) < 3.6 * MS);
    /* One size only: no line, but its time. */
    pace = make(WG_WINDOW_ADAPTIVE, 1);
    for (int i = 0; i < 10; i++)
        wgi_pace_served(&pace, 300, 5 * MS);
    EXPECT(wgi_pace_service_ns(&pace, 300) > 4.9 * MS &&
           wgi_pace_service_ns(&pace, 300) < 5.1 * MS);
    /* 20 tokens every 2 ms are 10 a ms; silence wears it off. */
    for (uint64_t t = 1; t <= 100; t++)
        wgi_pace_arrived(&pace, 20, 1000 * MS + t * 2 * MS);
    EXPECT(pace.tokens_per_ns * MS > 9.5 && pace.tokens_per_ns * MS < 10.5);
    wgi_pace_arrived(&pace, 0, 2000 * (uint64_t)MS);
    EXPECT(pace.tokens_per_ns * MS < 0.1);
}

static void test_adaptive(void)
{
    wgi_pace pace = make(WG_WINDOW_ADAPTIVE, 1);
    wgi_pace_view view = pending(20, 1000 * MS);
    wgi_pace_answer answer;
    uint64_t now = 1000 * MS;

    /* Nothing is known yet and a worker waits: at once. Nobody waits: not yet. */
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_NOT_YET);
    view.idle_count = 1;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_IDLE);
    /* 100 tokens a ms, 2.2 ms for this bin: some 240 more would come while it runs. */
    teach(&pace);
    pace.tokens_per_ns = 100.0 / MS;
    answer = wgi_pace_decide(&pace, &view, now);
    EXPECT_EQ(answer.reason, WGI_PACE_NOT_YET);
    EXPECT(answer.wake_tokens > 200 && answer.wake_tokens < 280);
    EXPECT(answer.wake_ns > now + 2 * MS && answer.wake_ns < now + 3 * MS);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, answer.wake_ns).reason, WGI_PACE_IDLE);
    /* A trickle: waiting does not pay. */
    pace.tokens_per_ns = 1.0 / MS;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_IDLE);
    /* A bin stands ready: the idle worker will take that. */
    view.ready_count = 1;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_NOT_YET);
    /* The device is busy: until just before it is done. */
    view = pending(20, now);
    view.free_ns = now + 3 * MS;
    answer = wgi_pace_decide(&pace, &view, now);
    EXPECT_EQ(answer.reason, WGI_PACE_NOT_YET);
    EXPECT_EQ(answer.wake_ns, view.free_ns);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, view.free_ns).reason, WGI_PACE_IDLE);
    /* Enough for two bins, or for all the look-ahead, or somebody presses. */
    view = pending(2000, now);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_FULL);
    view.ready_count = 1;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_NOT_YET);
    view.tokens = 32000;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_FULL);
    view = pending(1, now);
    view.is_pressed = true;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_PRESSED);
    view.tokens = 0;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).reason, WGI_PACE_NOT_YET);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, now).wake_tokens, 1);
}

static void test_deadline(void)
{
    wgi_pace pace = make(WG_WINDOW_ADAPTIVE, 1);
    wgi_pace_view view = pending(100, 1000 * MS);
    wgi_pace_answer answer;

    teach(&pace); /* 3 ms for it, 3 ms for what is before it */
    view.deadline_ns = 1010 * (uint64_t)MS;
    answer = wgi_pace_decide(&pace, &view, 1000 * MS);
    EXPECT_EQ(answer.reason, WGI_PACE_NOT_YET);
    EXPECT(answer.wake_ns > 1003 * (uint64_t)MS && answer.wake_ns < 1005 * (uint64_t)MS);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, answer.wake_ns).reason, WGI_PACE_DEADLINE);
}

/* With classes even a full bin stays open until somebody can run it. */
static void test_classes(void)
{
    wgi_pace pace = make(WG_WINDOW_ADAPTIVE, 2);
    wgi_pace_view view = pending(32000, 1000 * MS);
    wgi_pace_answer answer;

    teach(&pace);
    view.free_ns = 1020 * (uint64_t)MS;
    view.is_pressed = true;
    answer = wgi_pace_decide(&pace, &view, 1000 * MS);
    EXPECT_EQ(answer.reason, WGI_PACE_NOT_YET);
    EXPECT(answer.wake_ns > 1019 * (uint64_t)MS && answer.wake_ns < 1020 * (uint64_t)MS);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, answer.wake_ns).reason, WGI_PACE_PRESSED);
    view.idle_count = 1;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, 1000 * MS).reason, WGI_PACE_PRESSED);
    view.ready_count = 1; /* that one is for the idle worker */
    EXPECT_EQ(wgi_pace_decide(&pace, &view, 1000 * MS).reason, WGI_PACE_NOT_YET);
}

static void test_fixed(void)
{
    wgi_pace pace = make(WG_WINDOW_FIXED, 1);
    wgi_pace_view view = pending(100, 1000 * MS);
    wgi_pace_answer answer;

    view.sequences = 15;
    view.idle_count = 1;
    answer = wgi_pace_decide(&pace, &view, 1001 * (uint64_t)MS);
    EXPECT_EQ(answer.reason, WGI_PACE_NOT_YET);
    EXPECT_EQ(answer.wake_ns, 1005 * (uint64_t)MS);
    EXPECT_EQ(answer.wake_tokens, 101);
    EXPECT_EQ(wgi_pace_decide(&pace, &view, 1005 * (uint64_t)MS).reason, WGI_PACE_WINDOW);
    view.sequences = 16;
    EXPECT_EQ(wgi_pace_decide(&pace, &view, 1001 * (uint64_t)MS).reason, WGI_PACE_WINDOW);
}

int main(void)
{
    test_learning();
    test_adaptive();
    test_deadline();
    test_classes();
    test_fixed();
    return wgt_result();
}
