/*
 * truncate.c - limits on tokens as Hugging Face tokenizers applies them, and the final assembly.
 *
 * The idea: special tokens are always kept, so the texts share what is left of the limit. Of a pair
 * the longer text gives first; when both are longer than half, each gets half, and an odd token
 * goes to the longer one. Only that last case needs to know how long texts are beyond the limit.
 *
 * Threads: no state; any thread.
 */
#include "tokenizer/truncate.h"

#include <string.h>

#include "base/alloc.h"

wg_status wgi_plan_make(wgi_plan *plan, const wgi_post_processor *processor,
                        const wg_encode_options *options, bool has_pair, wg_error *err)
{
    size_t added;

    if (options->truncate < WG_TRUNCATE_HEAD || options->truncate > WG_TRUNCATE_ERROR)
        return wgi_fail(err, WG_ERR_ARGUMENT, "unknown way to truncate: %d",
                        (int)options->truncate);
    if (has_pair && !processor->has_pair)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "this tokenizer's post_processor has no template for two texts");
    *plan = (wgi_plan){
        .want = {.stop = SIZE_MAX, .plain_specials = options->plain_specials != 0},
        .template = has_pair ? &processor->pair : &processor->single,
        .room = SIZE_MAX,
        .has_pair = has_pair,
        .with_specials = !options->no_special_tokens,
        .fails_when_over = options->truncate == WG_TRUNCATE_ERROR,
    };
    if (options->token_count_max == 0) return WG_OK;
    added = plan->with_specials ? plan->template->added : 0;
    if (options->token_count_max < added)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "a limit of %zu tokens leaves no room for the %zu special tokens",
                        options->token_count_max, added);
    plan->room = options->token_count_max - added;
    plan->limit = options->token_count_max;
    plan->want.backward = options->truncate == WG_TRUNCATE_TAIL;
    /* One more than fits shows that some were left out. */
    plan->want.stop = plan->room < SIZE_MAX ? plan->room + 1 : SIZE_MAX;
    return WG_OK;
}

bool wgi_plan_needs_all(const wgi_plan *plan, const wgi_ids ids[2])
{
    return plan->has_pair && plan->room % 2 == 1 && plan->want.stop < SIZE_MAX &&
           ids[0].count > plan->room && ids[1].count > plan->room;
}

/* Tokens kept of each text. */
static void share(size_t room, const size_t counts[2], size_t kept[2])
{
    size_t longer = counts[0] > counts[1] ? 0 : 1;
    size_t shorter = 1 - longer;

    kept[0] = counts[0];
    kept[1] = counts[1];
    if (counts[0] <= room && counts[1] <= room - counts[0]) return;
    if (counts[shorter] > room / 2) kept[shorter] = room / 2;
    kept[longer] = room - kept[shorter];
}

static wg_status reserve(wg_encoding *encoding, size_t count, wg_error *err)
{
    size_t capacity = encoding->capacity;
    wg_status status = WG_OK;

    if (count <= capacity) return WG_OK;
    /* Both arrays grow alike from the same capacity; it is raised once both have. */
    WGI_TRY(wgi_grow(&encoding->token_ids, &capacity, count, sizeof(int32_t), err));
    capacity = encoding->capacity;
    WGI_TRY(wgi_grow(&encoding->type_ids, &capacity, count, sizeof(int32_t), err));
    encoding->capacity = capacity;

cleanup:
    return status;
}

static void put(wg_encoding *encoding, const int32_t *ids, size_t count, int32_t type_id)
{
    if (count) memcpy(encoding->token_ids + encoding->token_count, ids, count * sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        encoding->type_ids[encoding->token_count + i] = type_id;
    encoding->token_count += count;
}

static void assemble(const wgi_plan *plan, const wgi_post_processor *processor,
                     const wgi_ids ids[2], const size_t kept[2], wg_encoding *encoding)
{
    bool has_content = false;

    for (size_t i = 0; i < plan->template->count; i++) {
        const wgi_template_item *item = &plan->template->items[i];
        if (item->kind == WGI_TEMPLATE_SPECIAL) {
            if (plan->with_specials)
                put(encoding, processor->ids.items + item->first, item->count, item->type_id);
            continue;
        }
        size_t which = item->kind == WGI_TEMPLATE_B;
        size_t skip = plan->want.backward ? ids[which].count - kept[which] : 0;
        if (!has_content) encoding->content_begin = encoding->content_end = encoding->token_count;
        put(encoding, kept[which] ? ids[which].items + skip : NULL, kept[which], item->type_id);
        /* An empty text does not stretch the content over the special tokens before it. */
        if (kept[which]) {
            if (encoding->content_begin == encoding->content_end)
                encoding->content_begin = encoding->token_count - kept[which];
            encoding->content_end = encoding->token_count;
        }
        has_content = true;
    }
}

wg_status wgi_plan_finish(const wgi_plan *plan, const wgi_post_processor *processor,
                          const wgi_ids ids[2], wg_encoding *encoding, wg_error *err)
{
    const size_t counts[2] = {ids[0].count, plan->has_pair ? ids[1].count : 0};
    size_t kept[2] = {counts[0], counts[1]};
    size_t total;
    wg_status status = WG_OK;

    if (plan->has_pair) {
        share(plan->room, counts, kept);
    } else if (kept[0] > plan->room) {
        kept[0] = plan->room;
    }
    encoding->is_truncated = kept[0] < counts[0] || kept[1] < counts[1];
    if (encoding->is_truncated && plan->fails_when_over)
        return wgi_fail(err, WG_ERR_LIMIT, "the text has more than the %zu tokens that are allowed",
                        plan->limit);
    if (!wgi_add(kept[0], kept[1], &total) || !wgi_add(total, plan->template->added, &total))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "the tokens do not fit in memory");
    WGI_TRY(reserve(encoding, total, err));
    assemble(plan, processor, ids, kept, encoding);

cleanup:
    return status;
}
