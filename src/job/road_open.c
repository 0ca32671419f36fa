/*
 * road_open.c - settles what a run may use before it starts: the limit on a text, the size of a
 * bin, the memory of every part; refuses what cannot work, with the smallest value that would.
 *
 * Memory: what the process holds now (code, weights, packed weights) + lanes x (activations of a
 * bin + scratch) + the engine's queue and ring + the documents in flight <= the ceiling. Bins
 * shrink to fit, never below the longest text.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os_processor.h"
#include "job/footprint.h"
#include "job/road_parts.h"

#define WINDOW_DOCUMENTS   16384
#define WINDOW_BYTES_LEAST ((size_t)4 << 20)

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
    road->encode = (wg_encode_options){
        .token_count_max = road->tally.token_count_max,
        .truncate = road->options.embed.truncate,
        .plain_specials = road->options.embed.plain_specials,
    };
    return WG_OK;
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

    road->prompt = embed->prompt ? embed->prompt : name ? find_prompt(modules, name) : "";
    if (!road->prompt)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "prompt name \"%s\" is not in config_sentence_transformers.json of %s",
                        name, road->options.model->path);
    road->prompt_bytes = strlen(road->prompt);
    if (modules->include_prompt || road->prompt_bytes == 0) return WG_OK;

    /* Tokens that the prompt puts before the text: all of its own but the closing special ones. */
    status = wg_tokenizer_encode(road->options.model->tokenizer, road->prompt, road->prompt_bytes,
                                 NULL, 0, NULL, &encoding, err);
    if (status == WG_OK) road->prompt_skip = encoding.content_end;
    wg_encoding_fini(&encoding);
    return status;
}

/* -------------------------------------------------------------------------------- memory */

static wgi_footprint footprint_of(const wgi_road *road, size_t bin_tokens, size_t window_bytes)
{
    return (wgi_footprint){
        .model = road->options.model,
        .head = &road->head,
        .lane_count = road->lane_count,
        .bin_tokens = bin_tokens,
        .longest = road->tally.token_count_max,
        .window_bytes = window_bytes,
    };
}

/*
 * Settles the bin size under the ceiling: the wish, halved until it fits, but never below the
 * longest text; then a smaller window; then a refusal that names the memory that would do.
 */
static wg_status settle_memory(wgi_road *road, size_t *window_bytes, wg_error *err)
{
    wgi_tally *tally = &road->tally;
    wgi_budget budget = wgi_budget_now(road->options.model, road->options.embed.memory_bytes);
    size_t least = tally->token_count_max;
    size_t tokens = (size_t)road->options.embed.batch_tokens;

    *window_bytes = WGI_WINDOW_BYTES;
    tally->batch_tokens_rule = tokens ? "option" : "auto: where this backend stops getting faster";
    if (!tokens) tokens = road->options.model->backend->bin_tokens;
    if (tokens < least) {
        if (road->options.embed.batch_tokens)
            return wgi_fail(err, WG_ERR_ARGUMENT,
                            "max-batch-tokens %zu is below the longest text allowed: use at least "
                            "%zu, or a smaller max-length",
                            tokens, least);
        tokens = least;
    }
    if (tokens > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "max-batch-tokens %zu is above %d", tokens,
                        INT32_MAX);
    for (;;) {
        wgi_footprint footprint = footprint_of(road, tokens, *window_bytes);
        tally->planned_bytes = budget.held + wgi_footprint_bytes(&footprint);
        if (tally->planned_bytes <= budget.ceiling) break;
        if (!road->options.embed.batch_tokens && tokens > least) {
            tokens = tokens / 2 > least ? tokens / 2 : least;
            tally->batch_tokens_rule = "auto: what the memory holds";
        } else if (*window_bytes > WINDOW_BYTES_LEAST) {
            *window_bytes /= 2;
        } else {
            return wgi_fail(err, WG_ERR_LIMIT,
                            "texts of %zu tokens need %llu MiB of memory with %u threads, the "
                            "ceiling is %llu MiB: use --memory %lluM, fewer threads, or a smaller "
                            "max-length",
                            least, (unsigned long long)(tally->planned_bytes >> 20) + 1,
                            road->lane_count, (unsigned long long)(budget.ceiling >> 20),
                            (unsigned long long)(tally->planned_bytes >> 20) + 1);
        }
    }
    tally->batch_tokens = tokens;
    tally->memory_bytes = road->options.embed.memory_bytes;
    return WG_OK;
}

static wg_status allocate_lanes(wgi_road *road, size_t bin_tokens, wg_error *err)
{
    road->plan =
        wgi_encoder_plan(road->options.model->encoder, bin_tokens, road->tally.token_count_max);
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

    if (!wgi_mul(road->options.padded_batch, road->tally.token_count_max, &rows) ||
        rows > INT32_MAX)
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
    wgi_footprint footprint = footprint_of(road, (size_t)road->tally.batch_tokens, 0);
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
    size_t window_bytes = 0;

    *out = NULL;
    if (!road) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a run");
    road->options = *options;
    pthread_mutex_init(&road->lock, NULL);
    road->lane_count = options->embed.thread_count ? options->embed.thread_count : wgi_core_count();

    WGI_TRY(settle_limit(road, err));
    WGI_TRY(settle_prompt(road, err));
    WGI_TRY(wgi_embed_head_init(&road->head, &options->embed, &model->modules, &model->description,
                                model->backend, err));
    WGI_TRY(settle_memory(road, &window_bytes, err));
    note_settings(road);
    /* A padded run sorts or batches over all it was given, so its window has no end. */
    WGI_TRY(wgi_window_init(&road->window, options->padded_batch ? SIZE_MAX : WINDOW_DOCUMENTS,
                            options->padded_batch ? SIZE_MAX : window_bytes, err));
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
