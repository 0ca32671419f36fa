/*
 * sentence.h - the settings beside modules.json: length limit, lower case, prompts.
 */
#ifndef WGI_SENTENCE_H
#define WGI_SENTENCE_H

#include "model/model.h"

/*
 * Fills token_count_default, length_rule and lower_case. has_modules: the directory has a
 * modules.json; without one sentence_bert_config.json is not read (sentence-transformers' rule).
 */
wg_status wgi_sentence_load_limit(wgi_modules *modules, const char *directory,
                                  const wgi_description *description, bool has_modules,
                                  wg_error *err);

/*
 * Fills prompt_count, prompt_names, prompts, default_prompt_name; what is there on failure is for
 * wgi_modules_fini.
 */
wg_status wgi_sentence_load_prompts(wgi_modules *modules, const char *directory, wg_error *err);

#endif
