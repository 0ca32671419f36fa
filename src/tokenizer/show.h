/*
 * show.h - a string of a file inside a message: at most 60 bytes of it.
 */
#ifndef WGI_SHOW_H
#define WGI_SHOW_H

/* For "%.*s". */
#define WGI_SHOW(slice) (int)((slice).count < 60 ? (slice).count : 60), (slice).data

#endif
