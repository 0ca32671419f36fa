/*
 * fill.c - copies records into a bin.
 *
 * This is the one copy that a token makes inside the engine. Records come mostly in the order in
 * which they lie in their pages, so the holds of a page are given back for many at once, not by
 * an atomic subtraction for each.
 *
 * Threads: packer only.
 */
#include "engine/fill.h"

void wgi_fill_append(wgi_fill *fill, const wgi_record *record)
{
    wgi_page *page = wgi_queue_page(fill->queue, record);

    fill->deadlines[fill->bin->sequence_count] = record->deadline_ns;
    if (record->deadline_ns != WGI_NEVER) fill->has_deadline = true;
    if (fill->now > record->arrival_ns)
        fill->wait_ns[record->class_index] += fill->now - record->arrival_ns;
    fill->class_count[record->class_index]++;
    fill->squares += (uint64_t)record->count * record->count;
    wgi_bin_append(fill->bin, record->id, wgi_record_tokens(record), wgi_record_types(record),
                   record->count, fill->position_offset);
    if (page != fill->page) {
        wgi_fill_end(fill);
        fill->page = page;
    }
    fill->page_records++;
}

void wgi_fill_end(wgi_fill *fill)
{
    if (fill->page_records) wgi_queue_release(fill->queue, fill->page, fill->page_records);
    fill->page = NULL;
    fill->page_records = 0;
}
