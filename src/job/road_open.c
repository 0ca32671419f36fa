/*
 * road_open.c - settles what a run may use before it starts: the limit on a text, the size of a
 * bin, the memory of every part; refuses what cannot work, with the smallest value that would.
 *
 * Memory: what the process holds now (code, weights, packed weights) + lanes x (activations of a
 * bin + scratch) + the engine's queue and ring + the documents in flight <= the ceiling. All of it
 * but the first shrinks to fit, bins never below the longest text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os_processor.h"
#include "job/capacity_cache.h"
#include "job/footprint.h"
#include "job/road_parts.h"

#define WORKERS_MAX      1024
#define WINDOW_DOCUMENTS 16384

/* -------------------------------------------------------------------------------- limits */

static wg_status settle_limit(wgi_road *road, wg_error *err)
{
    const wg_model *model = road->options.model;
    uint32_t asked = road->options.embed.token_count_max;
    uint32_t positions = model->info.position_count;

    if (asked > positions)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "max-length %u is above the %u positions of the model in %s", asked,
                        positions, model->path);
    road->tally.token_count_max = asked ? asked : model->modules.token_count_default;
    road->tally.token_count_rule = asked ? "option" : model->modules.length_rule;
    road->rules.tokenizer = model->tokenizer;
    road->rules.path = model->path;
    road->rules.row_count = model->description.vocabulary_count;
    road->rules.encode = (wg_encode_options){
        .token_count_max = road->tally.token_count_max,
        .truncate = road->options.embed.truncate,
        .plain_specials = road->options.embed.plain_specials,
    };
    if (!model->tokenizer) return WG_OK; /* records bring ids */
    /* A limit without room for the template's special tokens would fail every text. */
    wg_encoding trial = {0};
    wg_status status =
        wg_tokenizer_encode(model->tokenizer, "", 0, NULL, 0, &road->rules.encode, &trial, err);
    wg_encoding_fini(&trial);
    return status == WG_ERR_LIMIT ? WG_OK : status;
}

/* The prompt of a name; sentence-transformers knows "query" and "document" even where none is set.
 */
static const char *find_prompt(const wgi_modules *modules, const char *name)
{
    for (uint32_t i = 0; i < modules->prompt_count; i++) {
        if (strcmp(modules->prompt_names[i], name) == 0) return modules->prompts[i];
    }
    return strcmp(name, "query") == 0 || strcmp(name, "document") == 0 ? "" : NULL;
}

static wg_status settle_prompt(wgi_road *road, wg_error *err)
{
    const wgi_modules *modules = &road->options.model->modules;
    const wg_embed_options *embed = &road->options.embed;
    const char *name = embed->prompt_name ? embed->prompt_name : modules->default_prompt_name;
    wg_encoding encoding = {0};
    wg_status status = WG_OK;
    const char *prompt = embed->prompt ? embed->prompt : name ? find_prompt(modules, name) : "";

    if (!prompt)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "prompt name \"%s\" is not in config_sentence_transformers.json of %s",
                        name, road->options.model->path);
    road->rules.prompt = prompt;
    road->rules.prompt_bytes = strlen(prompt);
    if (modules->include_prompt || !*prompt || !road->options.model->tokenizer) return WG_OK;

    /* Tokens that the prompt puts before the text: all of its own but the closing special ones. */
    status = wg_tokenizer_encode(road->options.model->tokenizer, prompt, strlen(prompt), NULL, 0,
                                 NULL, &encoding, err);
    if (status == WG_OK) road->prompt_skip = encoding.content_end;
    wg_encoding_fini(&encoding);
    return status;
}

/* -------------------------------------------------------------------------------- memory */

static wgi_footprint footprint_of(const wgi_road *road, size_t bin_tokens)
{
    return (wgi_footprint){
        .model = road->options.model,
        .head = &road->head,
        .lane_count = road->lane_count,
        .bin_tokens = bin_tokens,
        .longest = road->longest,
        .tightness = road->tightness,
    };
}

/* The wish where no size was asked for: what `probe` has measured here, or the backend's default.
 */
static size_t auto_tokens(wgi_road *road, const wgi_budget *budget)
{
    wgi_tally *tally = &road->tally;
    size_t tokens = road->options.model->backend->bin_tokens;
    wgi_footprint footprint = footprint_of(road, tokens);
    wg_probe known = {0};

    tally->batch_tokens_rule = "auto: where this backend stops getting faster";
    wgi_capacity_key(&footprint, WG_TASK_EMBED, road->options.embed.memory_bytes, budget->ceiling,
                     known.key);
    if (!wgi_capacity_cache_find(NULL, &known)) return tokens;
    if (known.knee_tokens && known.knee_tokens <= known.capacity_tokens) {
        tally->batch_tokens_rule = "auto: knee that probe measured";
        return (size_t)known.knee_tokens;
    }
    if (tokens <= known.capacity_tokens) return tokens;
    tally->batch_tokens_rule = "auto: capacity that probe measured";
    return (size_t)known.capacity_tokens;
}

/*
 * Texts that do not fit a bin fail, and the run goes on: a limit of thousands of positions is one
 * that few texts come near. But an encoder takes the length that it was asked for or is refused,
 * since no later release could run such a text in parts, as it could with a decoder.
 */
static bool may_leave_out_longest(const wgi_road *road)
{
    bool is_decoder = road->options.model->description.is_decoder;

    return road->options.padded_batch <= 1 &&
           (is_decoder || road->options.embed.token_count_max == 0);
}

__attribute__((format(printf, 3, 4))) static void leave_out_longest(wgi_road *road, size_t longest,
                                                                    const char *format, ...)
{
    wgi_text_rules *rules = &road->rules;
    va_list arguments;

    road->longest = rules->run_count = longest;
    va_start(arguments, format);
    (void)vsnprintf(rules->run_advice, sizeof(rules->run_advice), format, arguments);
    va_end(arguments);
    wgi_log(WG_LOG_WARNING, "texts of more than %zu token%s will fail: %s", longest,
            longest == 1 ? "" : "s", rules->run_advice);
}

/* What is wished for, at least one longest text. */
static wg_status wished_tokens(wgi_road *road, const wgi_budget *budget, size_t *out, wg_error *err)
{
    wgi_tally *tally = &road->tally;
    uint64_t asked = road->options.embed.batch_tokens;
    size_t least = road->longest;

    if (asked && asked < least && may_leave_out_longest(road)) {
        leave_out_longest(road, (size_t)asked, "use a larger --max-batch-tokens");
        least = road->longest;
    }
    if (asked && asked < least)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "max-batch-tokens %llu is below the longest text allowed: use at least "
                        "%zu, or a smaller max-length",
                        (unsigned long long)asked, least);
    if (asked > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "max-batch-tokens %llu is above %d",
                        (unsigned long long)asked, INT32_MAX);
    if (asked) tally->batch_tokens_rule = "option";
    *out = asked ? (size_t)asked : auto_tokens(road, budget);
    if (*out < least) *out = least;
    return WG_OK;
}

/* A worker less, where the number is ours to choose. */
static bool drop_lane(wgi_road *road)
{
    if (road->options.embed.thread_count || road->lane_count == 1) return false;
    road->lane_count--;
    return true;
}

/* One step towards a smaller run; false: there is none. */
static bool shrink(wgi_road *road, size_t *tokens, size_t wish)
{
    size_t least = road->longest;
    bool may_shrink_bins = !road->options.embed.batch_tokens && *tokens > least;

    if (road->tightness + 1 < WGI_TIGHTNESS_MAX || !may_shrink_bins) {
        if (road->tightness == WGI_TIGHTNESS_MAX) return drop_lane(road);
        road->tightness++;
        if (!road->options.embed.batch_tokens) *tokens = wish;
        return true;
    }
    *tokens = *tokens / 2 > least ? *tokens / 2 : least;
    return true;
}

/* The longest text, alone in its bin, that the ceiling holds; 0: none. */
static size_t longest_that_fits(wgi_road *road, const wgi_budget *budget)
{
    size_t fits = 0, too_long = road->longest;

    while (too_long - fits > 1) {
        size_t length = fits + (too_long - fits) / 2;
        road->longest = length;
        wgi_footprint footprint = footprint_of(road, length);
        size_t needed = wgi_footprint_bytes(&footprint);

        if (needed <= budget->ceiling && budget->held <= budget->ceiling - needed)
            fits = length;
        else
            too_long = length;
    }
    return fits;
}

/* The end of all shrinking: texts that fit are run where that may be; else the run is refused. */
static wg_status give_way(wgi_road *road, const wgi_budget *budget, size_t *tokens, wg_error *err)
{
    wgi_tally *tally = &road->tally;
    unsigned long long would_do = wgi_memory_figure(tally->planned_bytes);
    size_t wanted = road->longest;
    size_t fits = may_leave_out_longest(road) ? longest_that_fits(road, budget) : 0;

    road->longest = wanted;
    if (!fits)
        return wgi_fail(err, WG_ERR_LIMIT,
                        "%s of %zu tokens need %llu MiB of memory with %u thread%s, the "
                        "ceiling is %llu MiB: use --memory %lluM, %sor a smaller max-length",
                        *tokens == wanted ? "texts" : "bins", *tokens, would_do, road->lane_count,
                        road->lane_count == 1 ? "" : "s",
                        (unsigned long long)(budget->ceiling >> 20), would_do,
                        road->lane_count > 1 ? "fewer threads, " : "");
    if (road->rules.run_count) /* what was asked for leaves out some already */
        leave_out_longest(
            road, fits, "use --memory %lluM for up to %zu, and a larger --max-batch-tokens beyond",
            would_do, wanted);
    else
        leave_out_longest(road, fits, "use --memory %lluM", would_do);
    *tokens = fits;
    return WG_OK;
}

/*
 * Settles the bin size under the ceiling: the wish, with ever less besides the bins; then smaller
 * bins, but never below the longest text; then the same again with the least besides them; then
 * fewer workers, unless their number was asked for; then shorter texts only, or a refusal, and both
 * name the memory that would do.
 */
static wg_status settle_memory(wgi_road *road, wg_error *err)
{
    wgi_tally *tally = &road->tally;
    wgi_budget budget = wgi_budget_now(road->options.model, road->options.embed.memory_bytes);
    size_t wish = 0;

    road->longest = tally->token_count_max;
    wg_status status = wished_tokens(road, &budget, &wish, err);
    if (status != WG_OK) return status;
    size_t tokens = wish;
    uint32_t lanes = road->lane_count;
    for (;;) {
        wgi_footprint footprint = footprint_of(road, tokens);
        size_t needed = wgi_footprint_bytes(&footprint);
        if (__builtin_add_overflow(budget.held, needed, &tally->planned_bytes))
            tally->planned_bytes = UINT64_MAX;
        if (tally->planned_bytes <= budget.ceiling) break;
        if (shrink(road, &tokens, wish)) continue;
        status = give_way(road, &budget, &tokens, err);
        if (status != WG_OK) return status;
    }
    if (road->lane_count < lanes)
        wgi_log(WG_LOG_WARNING, "%u of %u compute threads are used: memory holds no more",
                road->lane_count, lanes);
    if (tokens < wish) tally->batch_tokens_rule = "auto: what the memory holds";
    tally->batch_tokens = tokens;
    tally->memory_bytes = road->options.embed.memory_bytes;
    return WG_OK;
}

static wg_status allocate_lanes(wgi_road *road, size_t bin_tokens, wg_error *err)
{
    road->plan = wgi_network_plan(road->options.model->network, bin_tokens, road->longest);
    road->lanes = wgi_calloc(road->lane_count, sizeof(*road->lanes));
    road->lane_memory = wgi_calloc(road->lane_count, sizeof(*road->lane_memory));
    for (uint32_t i = 0; i < road->lane_count && road->lanes && road->lane_memory; i++) {
        wgi_lane *lane = &road->lanes[i];
        lane->bin_memory = wgi_malloc_aligned(WGI_BYTE_ALIGN, road->plan.bin_bytes);
        lane->pool_memory =
            wgi_malloc_aligned(WGI_BYTE_ALIGN, wgi_embed_head_scratch_bytes(&road->head));
        road->lane_memory[i] = wgi_malloc_aligned(WGI_BYTE_ALIGN, road->plan.lane_bytes);
        if (!lane->bin_memory || !lane->pool_memory || !road->lane_memory[i])
            return wgi_fail(err, WG_ERR_NO_MEMORY,
                            "no memory for a bin of %zu tokens (%zu bytes of activations)",
                            bin_tokens, road->plan.bin_bytes);
    }
    if (!road->lanes || !road->lane_memory)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %u lanes", road->lane_count);
    return WG_OK;
}

/* ---------------------------------------------------------------------------- open, close */

static const char *pooling_name(wg_pooling pooling)
{
    static const char *const names[] = {
        [WG_POOLING_MODEL] = "model",
        [WG_POOLING_MEAN] = "mean",
        [WG_POOLING_CLS] = "cls",
        [WG_POOLING_LAST] = "last",
        [WG_POOLING_MAX] = "max",
        [WG_POOLING_NONE] = "none",
        [WG_POOLING_WEIGHTED_MEAN] = "weighted_mean",
        [WG_POOLING_SQRT_LENGTH_MEAN] = "sqrt_length_mean",
    };
    return names[pooling];
}

static void note_settings(wgi_road *road)
{
    const wgi_modules *modules = &road->options.model->modules;
    const wg_embed_options *embed = &road->options.embed;
    wgi_tally *tally = &road->tally;

    tally->thread_count = road->lane_count;
    tally->tokenizer_thread_count = road->options.tokenizer_thread_count
                                        ? road->options.tokenizer_thread_count
                                        : 1 + road->lane_count / 8;
    tally->pooling = pooling_name(road->head.pooling);
    tally->pooling_rule = embed->pooling != WG_POOLING_MODEL ? "option" : modules->pooling_rule;
    tally->normalize = road->head.normalize;
    tally->normalize_rule = embed->normalize ? "option" : modules->normalize_rule;
    tally->dim = road->head.dim;
}

/* The bins of a padded run: the size of the largest batch there can be. */
static wg_status open_padded(wgi_road *road, wg_error *err)
{
    size_t rows;

    if (!wgi_mul(road->options.padded_batch, road->longest, &rows) || rows > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "padded batches of %u texts do not fit a bin",
                        road->options.padded_batch);
    road->tally.batch_tokens = rows;
    road->tally.batch_tokens_rule = "padded";
    wg_status status =
        wgi_padded_open(&road->padded, road->options.padded_batch, road->options.padded_sorted,
                        road->options.model->description.position_offset, road->lane_count, err);
    return status == WG_OK ? allocate_lanes(road, rows, err) : status;
}

static wg_status open_packed(wgi_road *road, wg_error *err)
{
    wgi_footprint footprint = footprint_of(road, (size_t)road->tally.batch_tokens);
    wgi_engine_options engine = wgi_footprint_engine(&footprint);

    engine.ready = wgi_road_bin_ready;
    engine.ready_context = road;
    wg_status status = wgi_engine_open(&road->engine, &engine, err);
    return status == WG_OK ? allocate_lanes(road, engine.bin_tokens, err) : status;
}

wg_status wgi_road_open(wgi_road **out, const wgi_road_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    const wg_model *model = options->model;
    wgi_road *road = wgi_calloc(1, sizeof(*road));
    wgi_footprint footprint;

    *out = NULL;
    if (!road) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a run");
    road->options = *options;
    pthread_mutex_init(&road->lock, NULL);
    road->lane_count = options->embed.thread_count ? options->embed.thread_count : wgi_core_count();
    if (road->lane_count > WORKERS_MAX) {
        status = wgi_fail(err, WG_ERR_ARGUMENT, "%u threads: at most %d can work", road->lane_count,
                          WORKERS_MAX);
        road->lane_count = 0;
        goto cleanup;
    }

    WGI_TRY(settle_limit(road, err));
    WGI_TRY(settle_prompt(road, err));
    WGI_TRY(wgi_embed_head_init(&road->head, &options->embed, &model->modules, &model->description,
                                model->backend, err));
    WGI_TRY(settle_memory(road, err));
    footprint = footprint_of(road, (size_t)road->tally.batch_tokens);
    note_settings(road);
    /* A padded run sorts or batches over all it was given, so its window has no end. */
    WGI_TRY(wgi_window_init(&road->window, options->padded_batch ? SIZE_MAX : WINDOW_DOCUMENTS,
                            options->padded_batch ? SIZE_MAX : wgi_footprint_window(&footprint),
                            err));
    if (options->padded_batch)
        WGI_TRY(open_padded(road, err));
    else if (!options->plan_only)
        WGI_TRY(open_packed(road, err));
    wgi_log(WG_LOG_INFO, "bins of %llu tokens (%s), %u threads, %llu MiB planned",
            (unsigned long long)road->tally.batch_tokens, road->tally.batch_tokens_rule,
            road->lane_count, (unsigned long long)(road->tally.planned_bytes >> 20));

    *out = road;
    road = NULL;

cleanup:
    wgi_road_close(road);
    return status;
}

void wgi_road_close(wgi_road *road)
{
    if (!road) return;
    wgi_engine_close(road->engine);
    wgi_crew_close(road->crew);
    wgi_padded_close(road->padded);
    for (uint32_t i = 0; i < road->lane_count && road->lanes; i++) {
        wgi_free(road->lanes[i].bin_memory);
        wgi_free(road->lanes[i].pool_memory);
        if (road->lane_memory) wgi_free(road->lane_memory[i]);
    }
    wgi_free(road->lanes);
    wgi_free(road->lane_memory);
    wgi_free(road->lengths);
    wgi_window_fini(&road->window);
    wgi_embed_head_fini(&road->head);
    pthread_mutex_destroy(&road->lock);
    wgi_free(road);
}
