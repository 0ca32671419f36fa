/*
 * footprint.c - the formula; see footprint.h.
 *
 *   lanes x (activations of a bin + scratch of the kernels + scratch of the task head)
 *   + the engine's queue and ring + the documents in flight + a reserve
 *
 * The activations come from the code that carves them (wgi_encoder_plan), so the formula cannot
 * drift from what is allocated. A task that needs more (the rows of a language model's head, say)
 * adds it through its head.
 */
#include "job/footprint.h"

#include "base/alloc.h"
#include "base/os_memory.h"

/* Reader and tokenizer buffers, stacks, allocator slack: what no formula counts
 * (docs/decisions.md). */
#define PROCESS_RESERVE ((size_t)24 << 20)

wgi_engine_options wgi_footprint_engine(const wgi_footprint *footprint)
{
    return (wgi_engine_options){
        .bin_tokens = footprint->bin_tokens,
        .worker_count = footprint->lane_count,
        .position_offset = footprint->model->description.position_offset,
    };
}

size_t wgi_footprint_bytes(const wgi_footprint *footprint)
{
    wgi_engine_options engine = wgi_footprint_engine(footprint);
    wgi_plan plan =
        wgi_encoder_plan(footprint->model->encoder, footprint->bin_tokens, footprint->longest);
    size_t lane, total;

    if (!wgi_add(plan.bin_bytes, plan.lane_bytes, &lane) ||
        !wgi_add(lane, wgi_embed_head_scratch_bytes(footprint->head), &lane) ||
        !wgi_mul(lane, footprint->lane_count, &total) ||
        !wgi_add(total, wgi_engine_bytes(&engine), &total) ||
        !wgi_add(total, footprint->window_bytes, &total) ||
        !wgi_add(total, PROCESS_RESERVE, &total))
        return SIZE_MAX;
    return total;
}

wgi_budget wgi_budget_now(const wg_model *model, uint64_t asked_bytes)
{
    wgi_budget budget = {.held = wgi_memory_rss(), .ceiling = asked_bytes, .rule = "option"};

    /* The tables are read in place: their pages come in as texts ask for them. */
    budget.held += wgi_encoder_mapped_bytes(model->encoder);
    if (!asked_bytes) {
        budget.ceiling = budget.held + wgi_memory_available(NULL) / 10 * 9;
        budget.rule = "nine tenths of what machine, cgroup and limits leave";
    }
    return budget;
}
