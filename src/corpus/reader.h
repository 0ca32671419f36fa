/*
 * reader.h - what the job may ask of a reader beside the public calls.
 */
#ifndef WGI_READER_H
#define WGI_READER_H

#include "warpgroup/warpgroup.h"

/*
 * Asks a reader to stop: the wg_reader_next that runs, or the next one, returns
 * WG_ERR_INTERRUPTED, also when it waits for a pipe or a PDF child. Any thread; async-signal-safe.
 */
void wgi_reader_stop(const wg_reader *reader);

#endif
