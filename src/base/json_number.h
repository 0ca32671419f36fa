/*
 * json_number.h - the value of a number's digits; a part of base/json for its own use.
 */
#ifndef WGI_JSON_NUMBER_H
#define WGI_JSON_NUMBER_H

#include "base/json.h"

/*
 * The double nearest to a number that matches JSON's grammar (ties to even), in any locale; false
 * when its magnitude is beyond the largest double.
 */
bool wgi_json_number_value(wgi_slice text, double *out);

#endif
