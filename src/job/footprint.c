/*
 * footprint.c - the formula; see footprint.h.
 *
 *   lanes x (activations of a bin + scratch of the kernels + scratch of the task head)
 *   + the engine's queue and ring + the documents in flight + a reserve
 *
 * The last three have four sizes. Under a tight ceiling a run takes the smaller ones: fewer
 * documents wait and bins are packed over less, which costs a little fill and no result.
 *
 * The activations come from the code that carves them (wgi_network_plan), so the formula cannot
 * drift from what is allocated. A task that needs more (the rows of a language model's head, say)
 * adds it through its head.
 */
#include "job/footprint.h"

#include "base/alloc.h"
#include "base/os_memory.h"

#define MIB ((size_t)1 << 20)

/*
 * The reserve is for what no formula counts: buffers of reader, tokenizer and writer, stacks,
 * slack of the allocator. docs/capacity.md says how much of it was needed.
 */
typedef struct slack {
    size_t window_bytes, reserve_bytes;
    size_t lookahead_bins;
} slack;

static const slack slacks[WGI_TIGHTNESS_MAX + 1] = {
    {48 * MIB, 24 * MIB, 8},
    {24 * MIB, 16 * MIB, 8},
    {8 * MIB, 12 * MIB, 8},
    {1 * MIB, 8 * MIB, 4},
};

size_t wgi_footprint_window(const wgi_footprint *footprint)
{
    return slacks[footprint->tightness].window_bytes;
}

wgi_engine_options wgi_footprint_engine(const wgi_footprint *footprint)
{
    /* Rows are written in input order, so what is packed over at once is what may wait for its
     * oldest text: on a CPU, where a bin that is not full costs nothing, little is better. */
    size_t bins = slacks[footprint->tightness].lookahead_bins, least = 2 * footprint->lane_count;

    return (wgi_engine_options){
        .bin_tokens = footprint->bin_tokens,
        .worker_count = footprint->lane_count,
        .lookahead_tokens = (bins > least ? bins : least) * footprint->bin_tokens,
        .position_offset = footprint->model->description.position_offset,
    };
}

size_t wgi_footprint_bytes(const wgi_footprint *footprint)
{
    wgi_engine_options engine = wgi_footprint_engine(footprint);
    wgi_plan plan =
        wgi_network_plan(footprint->model->network, footprint->bin_tokens, footprint->longest);
    size_t lane, total;

    if (!wgi_add(plan.bin_bytes, plan.lane_bytes, &lane) ||
        !wgi_add(lane, wgi_embed_head_scratch_bytes(footprint->head), &lane) ||
        !wgi_mul(lane, footprint->lane_count, &total) ||
        !wgi_add(total, wgi_engine_bytes(&engine), &total) ||
        !wgi_add(total, slacks[footprint->tightness].window_bytes, &total) ||
        !wgi_add(total, slacks[footprint->tightness].reserve_bytes, &total))
        return SIZE_MAX;
    return total;
}

wgi_budget wgi_budget_now(const wg_model *model, uint64_t asked_bytes)
{
    wgi_budget budget = {.held = wgi_memory_rss(), .ceiling = asked_bytes, .rule = "option"};

    /* The tables are read in place: their pages come in as texts ask for them. */
    budget.held += wgi_network_mapped_bytes(model->network);
    if (!asked_bytes) {
        budget.ceiling = budget.held + wgi_memory_available(NULL) / 10 * 9;
        budget.rule = "nine tenths of what machine, cgroup and limits leave";
    }
    return budget;
}
