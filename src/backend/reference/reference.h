/*
 * reference.h - the backend that tests compare with: plain loops, double accumulation.
 */
#ifndef WGI_REFERENCE_H
#define WGI_REFERENCE_H

#include "backend/backend.h"

const wgi_backend *wgi_reference_backend(void);

#endif
