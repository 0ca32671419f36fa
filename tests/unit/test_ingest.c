/*
 * test_ingest.c - files into an engine: what a reader and a tokenizer give one document at a time
 * is what is told and what comes out in bins, once each and in order; a full engine, a stop at any
 * moment, an engine that is stopped, and memory that runs out lose nothing silently. LABELS: quick
 * torture
 */
#include "warpgroup/ingest.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os_clock.h"
#include "harness.h"
#include "temporary.h"

#define CASES     WGT_DATA "/cases/"
#define MODEL     WGT_DATA "/tiny-bert-h32-d8-mean"
#define BIN       64
#define DOCS_MAX  8192
#define MANY      5000 /* more than the window of an ingest holds */
#define FIRST     UINT64_C(1000)
#define SECOND_NS UINT64_C(1000000000)

static wg_error err;
static wg_tokenizer *tokenizer;
static wgt_folder folder;
static char many_path[300];

/* ------------------------------------------------------------------------- what it has to be */

typedef struct document {
    char id[128], source[300], reason[320];
    wg_failure failure;
    uint64_t token_count, place;
    bool is_truncated, is_out;
    int32_t *ids; /* NULL for what was told */
} document;

typedef struct documents {
    document *all;
    uint64_t count;
    uint64_t first_id;
    useconds_t pause_us;
} documents;

static documents documents_new(uint64_t first_id)
{
    return (documents){.all = calloc(DOCS_MAX, sizeof(document)), .first_id = first_id};
}

static void documents_free(documents *set)
{
    for (uint64_t i = 0; i < DOCS_MAX; i++)
        free(set->all[i].ids);
    free(set->all);
}

static void set_text(char *out, size_t room, const char *text, size_t bytes)
{
    (void)snprintf(out, room, "%.*s", (int)bytes, text ? text : "");
}

/* The ids of one document by the public calls alone. */
static void encode(document *d, const wg_document *from, const wg_ingest_options *options,
                   wg_encoding *encoding)
{
    wg_encode_options how = options->encode;
    const int32_t *ids = from->token_ids;
    size_t count = from->token_count, most = how.token_count_max ? how.token_count_max : BIN;
    static char joined[1 << 16];

    if (most > BIN) most = BIN;
    how.token_count_max = most;
    if (!ids && options->tokenizer) {
        int length = snprintf(joined, sizeof(joined), "%s", options->prompt ? options->prompt : "");
        memcpy(joined + length, from->text, from->text_bytes);
        wg_status status = wg_tokenizer_encode(tokenizer, joined, (size_t)length + from->text_bytes,
                                               NULL, 0, &how, encoding, &err);
        if (status == WG_ERR_LIMIT) d->failure = WG_FAILURE_TOO_LONG;
        d->is_truncated = encoding->is_truncated;
        ids = encoding->token_ids;
        count = encoding->token_count;
    } else if (count > most) {
        if (how.truncate == WG_TRUNCATE_ERROR) d->failure = WG_FAILURE_TOO_LONG;
        if (how.truncate == WG_TRUNCATE_TAIL) ids += count - most;
        d->is_truncated = true;
        count = most;
    }
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0) d->failure = WG_FAILURE_BAD_TOKEN;
    if (d->failure == WG_FAILURE_NONE && count == 0) d->failure = WG_FAILURE_NO_TOKENS;
    if (d->failure != WG_FAILURE_NONE) return;
    d->token_count = count;
    d->ids = malloc(count * sizeof(int32_t));
    memcpy(d->ids, ids, count * sizeof(int32_t));
}

static documents truth(const wg_ingest_options *options)
{
    documents set = documents_new(options->first_id);
    wg_reader *reader = NULL;
    wg_encoding encoding = {0};
    wg_document from;
    int has = 1;

    EXPECT_OK(wg_reader_open(&reader, &options->input, &err));
    while (wg_reader_next(reader, &from, &has, &err) == WG_OK && has) {
        document *d = &set.all[set.count++];

        set_text(d->id, sizeof(d->id), from.id, from.id_bytes);
        set_text(d->source, sizeof(d->source), from.source, from.source_bytes);
        d->place = from.place;
        d->failure = from.failure;
        set_text(d->reason, sizeof(d->reason), from.reason, strlen(from.reason));
        if (d->failure == WG_FAILURE_NONE) encode(d, &from, options, &encoding);
    }
    wg_encoding_fini(&encoding);
    wg_reader_close(reader);
    return set;
}

/* ----------------------------------------------------------------------------- what it is */

static void tell(void *context, const wg_ingested *told)
{
    documents *set = context;
    document *d = &set->all[set->count];

    EXPECT_EQ(told->sequence_id, set->first_id + set->count);
    set->count++;
    set_text(d->id, sizeof(d->id), told->id, told->id_bytes);
    set_text(d->source, sizeof(d->source), told->source, told->source_bytes);
    set_text(d->reason, sizeof(d->reason), told->reason, strlen(told->reason));
    d->failure = told->failure;
    d->token_count = told->token_count;
    d->is_truncated = told->is_truncated;
    d->place = told->place;
}

static wg_engine *open_engine(wg_engine_options options)
{
    wg_engine *engine = NULL;

    if (!options.bin_tokens) options.bin_tokens = BIN;
    EXPECT_OK(wg_engine_open(&engine, &options, &err));
    return engine;
}

/* The end of the run; a hung one fails here. */
static wg_status wait_for(wg_ingest *ingest)
{
    int is_done = 0;
    wg_status status = wg_ingest_wait(ingest, 120 * SECOND_NS, &is_done, &err);

    EXPECT(is_done);
    return status;
}

/* Takes every bin; each sequence has the ids of its document. Returns how many came. */
static uint64_t consume(wg_engine *engine, documents *want)
{
    uint64_t count = 0;
    wg_bin bin;
    wg_next next;

    while (wg_engine_next(engine, NULL, 120 * SECOND_NS, &bin, &next, &err) == WG_OK &&
           next == WG_NEXT_BIN) {
        for (uint64_t s = 0; s < bin.sequence_count; s++, count++) {
            uint64_t k = bin.sequence_ids[s] - want->first_id;
            document *d = k < want->count ? &want->all[k] : NULL;

            if (!d || d->is_out || d->token_count != bin.segments[s].count || !d->ids ||
                memcmp(d->ids, bin.token_ids + bin.segments[s].row,
                       d->token_count * sizeof(int32_t)) != 0)
                EXPECT_EQ(bin.sequence_ids[s], -1);
            if (d) d->is_out = true;
        }
        if (want->pause_us) (void)usleep(want->pause_us);
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    EXPECT_EQ(next, WG_NEXT_DRAINED);
    return count;
}

static void expect_same(const documents *told, const documents *want, wg_ingest_counts counts)
{
    uint64_t failed = 0, truncated = 0, tokens = 0, submitted = 0;

    EXPECT_EQ(told->count, want->count);
    for (uint64_t i = 0; i < want->count && i < told->count; i++) {
        const document *a = &told->all[i], *b = &want->all[i];

        EXPECT_TEXT(a->id, b->id);
        EXPECT_TEXT(a->source, b->source);
        EXPECT_EQ(a->failure, b->failure);
        EXPECT_EQ(a->token_count, b->token_count);
        EXPECT_EQ(a->place, b->place);
        EXPECT_EQ(b->is_out, b->failure == WG_FAILURE_NONE);
        if (b->failure == WG_FAILURE_NONE) {
            EXPECT_EQ(a->is_truncated, b->is_truncated);
            EXPECT_TEXT(a->reason, "");
        } else if (*b->reason) {
            EXPECT_TEXT(a->reason, b->reason);
        } else {
            EXPECT(strlen(a->reason) > 10);
        }
        failed += b->failure != WG_FAILURE_NONE;
        truncated += b->failure == WG_FAILURE_NONE && b->is_truncated;
        submitted += b->failure == WG_FAILURE_NONE;
        tokens += b->token_count;
    }
    EXPECT_EQ(counts.failed, failed);
    EXPECT_EQ(counts.truncated, truncated);
    EXPECT_EQ(counts.submitted, submitted);
    EXPECT_EQ(counts.tokens, tokens);
    EXPECT_EQ(counts.reader.documents, want->count);
}

static documents check(wg_ingest_options options, wg_engine_options engine_options,
                       useconds_t pause)
{
    documents want = truth(&options), told = documents_new(options.first_id);
    wg_engine *engine = open_engine(engine_options);
    wg_ingest *ingest = NULL;

    want.pause_us = pause;
    options.engine = engine;
    options.document = tell;
    options.context = &told;
    EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
    if (ingest) {
        (void)consume(engine, &want);
        EXPECT_OK(wait_for(ingest));
        EXPECT_OK(wait_for(ingest));
        expect_same(&told, &want, wg_ingest_counted(ingest));
    }
    wg_ingest_close(ingest);
    wg_engine_close(engine);
    documents_free(&told);
    return want;
}

static uint64_t count_of(const documents *set, wg_failure failure)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < set->count; i++)
        count += set->all[i].failure == failure;
    return count;
}

/* --------------------------------------------------------------------------------- the cases */

static const char *const corpora[] = {
    CASES "j01-bom.jsonl",         CASES "j03-blank-crlf.jsonl",
    CASES "j07-escaped-nul.jsonl", CASES "j09-bad-utf8.jsonl",
    CASES "j15-missing.jsonl",     CASES "j16-missing.jsonl",
    CASES "j19-deep.jsonl",        CASES "j23-bigint.jsonl",
    CASES "j27-torn.jsonl",        CASES "nobody.jsonl",
    CASES "p01-plain.pdf",         CASES "p04-user-password.pdf",
    CASES "p06-scan.pdf",          CASES "t01-utf16le.txt",
    CASES "t05-empty.txt",         CASES "t07-nul.txt",
    CASES "z01-members.jsonl.gz",  CASES "z03-truncated.jsonl.gz",
    CASES "z08-garbage.jsonl.gz",  WGT_DATA "/minilm-reference.jsonl"};

static void every_document_once(void)
{
    wg_ingest_options options = {
        .input = {.inputs = corpora, .input_count = sizeof(corpora) / sizeof(corpora[0])},
        .tokenizer = tokenizer,
        .encode = {.token_count_max = 10 * BIN}, /* a bin holds less, and that counts */
        .first_id = FIRST,
    };

    documents whole = check(options, (wg_engine_options){0}, 0);
    EXPECT(whole.count > 30);
    EXPECT(count_of(&whole, WG_FAILURE_NONE) > 20);
    EXPECT(count_of(&whole, WG_FAILURE_NO_TEXT_LAYER) == 1);
    documents_free(&whole);

    options.input.input_count = 9; /* without the PDFs: once is enough for them */
    options.input.inputs = corpora + 11;
    options.prompt = "the signal: ";
    for (int truncate = WG_TRUNCATE_HEAD; truncate <= WG_TRUNCATE_ERROR; truncate++) {
        options.encode =
            (wg_encode_options){.token_count_max = 9, .truncate = (wg_truncate)truncate};
        options.thread_count = 1 + (uint32_t)truncate;
        documents cut = check(options, (wg_engine_options){0}, 0);
        EXPECT_EQ(count_of(&cut, WG_FAILURE_TOO_LONG) > 0, truncate == WG_TRUNCATE_ERROR);
        documents_free(&cut);
    }
}

static void ready_ids(void)
{
    static const char *const names[] = {"ids.jsonl", "text.txt"};
    char paths[2][300], text[2000] = "";
    const char *inputs[] = {paths[0], paths[1]};

    (void)strcat(text, "{\"id\": \"a\", \"ids\": [1, 2, 3]}\n{\"ids\": [4, -1]}\n{\"ids\": []}\n"
                       "{\"ids\": [5, 99999999999]}\n{\"text\": \"a\"}\n{\"ids\": [0");
    for (int i = 1; i < 100; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %d", i);
    (void)strcat(text, "]}\n");
    wgt_write(&folder, names[0], text, strlen(text));
    wgt_write(&folder, names[1], "a cat", 5);
    for (int i = 0; i < 2; i++)
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder.path, names[i]);
    for (int truncate = WG_TRUNCATE_HEAD; truncate <= WG_TRUNCATE_ERROR; truncate++) {
        documents set = check(
            (wg_ingest_options){
                .input = {.inputs = inputs, .input_count = 2, .ids_field = "ids"},
                .encode = {.truncate = (wg_truncate)truncate},
            },
            (wg_engine_options){0}, 0);
        EXPECT_EQ(set.count, 7);
        EXPECT_EQ(set.all[0].token_count, 3);
        EXPECT_EQ(set.all[1].failure, WG_FAILURE_BAD_JSON); /* the reader refuses it */
        EXPECT_EQ(set.all[2].failure, WG_FAILURE_NO_TOKENS);
        EXPECT_EQ(set.all[6].failure, WG_FAILURE_NO_TOKENS);
        if (truncate != WG_TRUNCATE_ERROR) {
            EXPECT_EQ(set.all[5].token_count, BIN);
            EXPECT_EQ(set.all[5].ids[0], truncate == WG_TRUNCATE_HEAD ? 0 : 100 - BIN);
        }
        documents_free(&set);
    }
}

static const char *many_inputs[] = {many_path};

static wg_ingest_options many(void)
{
    return (wg_ingest_options){.input = {.inputs = many_inputs, .input_count = 1},
                               .tokenizer = tokenizer};
}

/* Nothing overtakes and nothing is lost where every stop waits for the next. */
static void full_engine(void)
{
    documents set = check(many(), (wg_engine_options){.pending_bytes = 1, .slot_count = 2}, 20);

    EXPECT_EQ(set.count, MANY);
    documents_free(&set);
}

static void limit_on_squares(void)
{
    wg_ingest_options options = many();
    wg_engine *engine = open_engine((wg_engine_options){.bin_squares = 120});
    wg_ingest *ingest = NULL;
    wg_bin bin;
    wg_next next;
    uint64_t longest = 0;

    options.engine = engine;
    EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
    while (wg_engine_next(engine, NULL, WG_FOREVER, &bin, &next, &err) == WG_OK &&
           next == WG_NEXT_BIN) {
        if (bin.longest > longest) longest = bin.longest;
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    EXPECT_OK(wait_for(ingest));
    EXPECT_EQ(longest, 10); /* 11 x 11 is above 120 */
    EXPECT_EQ(wg_ingest_counted(ingest).submitted, MANY);
    wg_ingest_close(ingest);
    wg_engine_close(engine);
}

/* What was told is the head of the input, and what was counted as submitted is in the engine. */
static void stop_at_any_moment(void)
{
    wg_ingest_options options = many();
    documents want = truth(&options);
    unsigned interrupted = 0;

    wgt_seed_set(11);
    for (int turn = 0; turn < 24; turn++) {
        documents told = documents_new(0);
        wg_engine *engine = open_engine((wg_engine_options){
            .pending_bytes = turn % 2 ? 1 : 0, .lookahead_tokens = turn % 2 ? 0 : 1 << 20});
        wg_ingest *ingest = NULL;
        wg_ingest_counts counts;

        options.engine = engine;
        options.document = tell;
        options.context = &told;
        options.keep_open = 1;
        EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
        (void)usleep((useconds_t)wgt_below(turn % 4 == 3 ? 10 : 20000));
        wg_ingest_stop(ingest);
        wg_status status = wait_for(ingest);
        EXPECT(status == WG_OK || status == WG_ERR_INTERRUPTED);
        interrupted += status != WG_OK;
        counts = wg_ingest_counted(ingest);
        wg_ingest_close(ingest);
        EXPECT_OK(wg_engine_finish(engine, &err));
        for (uint64_t i = 0; i < want.count; i++)
            want.all[i].is_out = false;
        EXPECT_EQ(consume(engine, &want), counts.submitted);
        for (uint64_t i = 0; i < want.count; i++) /* the corpus has no failure in it */
            if (want.all[i].is_out != (i < counts.submitted)) EXPECT_EQ(i, counts.submitted);
        if (status == WG_OK) EXPECT_EQ(counts.submitted, MANY);
        EXPECT(told.count - counts.submitted <= (status == WG_OK ? 0 : 1));
        wg_engine_close(engine);
        documents_free(&told);
    }
    EXPECT(interrupted > 6);
    documents_free(&want);
}

/* An input that never ends and gives nothing: a pipe whose other end is open. */
static void while_nothing_comes(bool is_engine_stopped)
{
    char path[64];
    const char *inputs[] = {path};
    wg_engine *engine = open_engine((wg_engine_options){0});
    wg_ingest_options options = {
        .input = {.inputs = inputs, .input_count = 1, .format = WG_FORMAT_JSONL},
        .tokenizer = tokenizer,
        .engine = engine};
    wg_ingest *ingest = NULL;
    int ends[2], is_done = 1;
    uint64_t begin;

    EXPECT_EQ(pipe(ends), 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
    EXPECT_OK(wg_ingest_wait(ingest, 20000000, &is_done, &err));
    EXPECT_EQ(is_done, 0);
    begin = wgi_clock_ns();
    if (is_engine_stopped)
        EXPECT_OK(wg_engine_stop(engine, &err));
    else
        wg_ingest_stop(ingest);
    EXPECT_EQ(wait_for(ingest), is_engine_stopped ? WG_ERR_CLOSED : WG_ERR_INTERRUPTED);
    EXPECT(strlen(err.message) > 10);
    EXPECT(wgi_clock_ns() - begin < (WGT_HAS_SANITIZER ? 20 : 1) * SECOND_NS);
    wg_ingest_close(ingest);
    wg_engine_close(engine);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* The engine ends while a document waits for room in it. */
static void engine_ends_meanwhile(bool is_stopped)
{
    wg_ingest_options options = many();
    wg_engine *engine = open_engine((wg_engine_options){.pending_bytes = 1});
    wg_ingest *ingest = NULL;
    int is_done = 1;

    options.engine = engine;
    EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
    EXPECT_OK(wg_ingest_wait(ingest, 30000000, &is_done, &err));
    EXPECT_EQ(is_done, 0);
    EXPECT_OK(is_stopped ? wg_engine_stop(engine, &err) : wg_engine_finish(engine, &err));
    EXPECT_EQ(wait_for(ingest), WG_ERR_CLOSED);
    EXPECT(wg_ingest_counted(ingest).submitted < MANY);
    wg_ingest_close(ingest);
    wg_engine_close(engine);
}

/* Closed at once, or while a full engine holds everything back; then its input is finished. */
static void close_without_a_word(void)
{
    for (int turn = 0; turn < 20; turn++) {
        wg_ingest_options options = many();
        wg_engine *engine = open_engine((wg_engine_options){.pending_bytes = 1});
        wg_ingest *ingest = NULL;
        wg_engine_stats stats;

        options.engine = engine;
        EXPECT_OK(wg_ingest_open(&ingest, &options, &err));
        if (turn % 2) (void)usleep(3000);
        wg_ingest_close(ingest);
        EXPECT_EQ(wg_engine_submit(
                      engine, &(wg_sequence){.token_ids = &(int32_t){1}, .token_count = 1}, &err),
                  WG_ERR_CLOSED);
        EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
        EXPECT(stats.sequences_in < MANY);
        wg_engine_close(engine);
    }
}

typedef struct feeder {
    wg_ingest *ingest;
    documents told;
} feeder;

static void several_into_one(void)
{
    enum { FEEDERS = 3 };
    wg_ingest_options options = many();
    wg_engine *engine = open_engine((wg_engine_options){.slot_count = 4, .bin_tokens = 16 * BIN});
    feeder feeders[FEEDERS + 1];
    documents want, all;

    options.encode.token_count_max = BIN;
    want = truth(&options);
    options.engine = engine;
    options.document = tell;
    all = (documents){.all = calloc((size_t)MANY * (FEEDERS + 1), sizeof(document))};
    for (uint64_t i = 0; i < (uint64_t)MANY * (FEEDERS + 1); i++) {
        all.all[i] = want.all[i % MANY]; /* ids are shared */
        all.count++;
    }
    for (uint64_t f = 0; f <= FEEDERS; f++) {
        feeders[f].told = documents_new(f * MANY);
        options.first_id = f * MANY;
        options.context = &feeders[f].told;
        options.keep_open = f < FEEDERS;
        if (f == FEEDERS) { /* the last one comes when the others have done, and ends the input */
            for (uint64_t g = 0; g < FEEDERS; g++) {
                wg_bin bin;
                wg_next next;
                int is_done = 0;

                while (!is_done) {
                    EXPECT_OK(wg_ingest_wait(feeders[g].ingest, 100000, &is_done, &err));
                    EXPECT_OK(wg_engine_next(engine, NULL, 0, &bin, &next, &err));
                    if (next != WG_NEXT_BIN) continue;
                    for (uint64_t s = 0; s < bin.sequence_count; s++) {
                        EXPECT(!all.all[bin.sequence_ids[s]].is_out);
                        all.all[bin.sequence_ids[s]].is_out = true;
                    }
                    EXPECT_OK(wg_engine_release(engine, &bin, &err));
                }
            }
        }
        EXPECT_OK(wg_ingest_open(&feeders[f].ingest, &options, &err));
    }
    (void)consume(engine, &all);
    for (uint64_t i = 0; i < all.count; i++)
        if (!all.all[i].is_out) EXPECT_EQ(i, -1);
    for (uint64_t f = 0; f <= FEEDERS; f++) {
        EXPECT_OK(wait_for(feeders[f].ingest));
        EXPECT_EQ(feeders[f].told.count, MANY);
        wg_ingest_close(feeders[f].ingest);
        documents_free(&feeders[f].told);
    }
    wg_engine_close(engine);
    free(all.all);
    documents_free(&want);
}

static void misuse(void)
{
    wg_engine *engine = open_engine((wg_engine_options){0});
    wg_ingest_options options = many();
    wg_ingest *ingest = NULL;
    int is_done;

    EXPECT_EQ(wg_ingest_open(&ingest, &options, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "engine");
    options.engine = engine;
    EXPECT_EQ(wg_ingest_open(NULL, &options, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_ingest_open(&ingest, NULL, &err), WG_ERR_ARGUMENT);
    options.tokenizer = NULL;
    EXPECT_EQ(wg_ingest_open(&ingest, &options, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "ids_field");
    options.tokenizer = tokenizer;
    options.class_index = 1;
    EXPECT_EQ(wg_ingest_open(&ingest, &options, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "class 1");
    EXPECT(ingest == NULL);
    EXPECT_EQ(wg_ingest_wait(NULL, 0, &is_done, &err), WG_ERR_ARGUMENT);
    wg_ingest_stop(NULL);
    wg_ingest_close(NULL);
    EXPECT_EQ(wg_ingest_counted(NULL).failed, 0);
    wg_engine_close(engine);
}

/* Allocation N fails, and every one after: a status, no hang, no leak, nothing twice. */
static void memory_runs_out(void)
{
    static const char *const inputs[] = {CASES "j15-missing.jsonl", CASES "t07-nul.txt"};
    unsigned failures = 0;

    for (long nth = 1;; nth++) {
        wg_engine *engine = open_engine((wg_engine_options){0});
        wg_ingest *ingest = NULL;
        documents told = documents_new(0);
        wg_ingest_options options = {.input = {.inputs = inputs, .input_count = 2},
                                     .tokenizer = tokenizer,
                                     .engine = engine,
                                     .prompt = "a ",
                                     .thread_count = 1,
                                     .document = tell,
                                     .context = &told};

        wgi_alloc_fail_at(nth);
        wg_status status = wg_ingest_open(&ingest, &options, &err);
        if (status == WG_OK) status = wait_for(ingest);
        wgi_alloc_fail_at(0);
        wg_ingest_close(ingest);
        wg_engine_close(engine);
        bool is_failed = false; /* a failed document may stand for memory that ran out as well */
        for (uint64_t i = 0; i < told.count; i++)
            is_failed = is_failed || told.all[i].failure == WG_FAILURE_NO_MEMORY;
        documents_free(&told);
        if (status == WG_OK && !is_failed) break;
        failures++;
        if (status != WG_OK) EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        if (nth > 1000) {
            EXPECT(nth < 1000);
            break;
        }
    }
    EXPECT(failures > 5);
}

int main(void)
{
    wgt_seed_set(29);
    folder = wgt_folder_open();
    EXPECT_OK(wg_tokenizer_open(&tokenizer, MODEL, &err));
    if (!tokenizer) return wgt_result();
    (void)snprintf(many_path, sizeof(many_path), "%s/many.jsonl", folder.path);
    FILE *file = fopen(many_path, "w");
    for (int i = 0; i < MANY && file; i++) {
        fprintf(file, "{\"id\": %d, \"text\": \"a", i);
        for (uint64_t n = wgt_below(40); n; n--)
            fputs(n % 3 ? " cat" : " the signal", file);
        fputs("\"}\n", file);
    }
    if (file) (void)fclose(file);

    misuse();
    every_document_once();
    ready_ids();
    full_engine();
    limit_on_squares();
    stop_at_any_moment();
    while_nothing_comes(false);
    while_nothing_comes(true);
    engine_ends_meanwhile(true);
    engine_ends_meanwhile(false);
    close_without_a_word();
    several_into_one();
    memory_runs_out();
    wg_tokenizer_close(tokenizer);
    wgt_folder_close(&folder);
    return wgt_result();
}
