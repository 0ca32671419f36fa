/*
 * fuzz_config.c - any bytes as one of the JSON files of a model directory. The first byte chooses
 * the file; the rest of a small valid directory stands beside it.
 *
 * Property: an accepted directory gives values in their ranges, the same when it is read again; a
 * refusal has a sentence that names the folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "description_check.h"
#include "model/model.h"
#include "temporary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static const struct {
    const char *name, *usual; /* usual NULL: not there */
} files[] = {
    {"config.json", "{\"model_type\":\"bert\",\"hidden_size\":4,\"num_attention_heads\":2}"},
    {"modules.json",
     "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
     "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
     "{\"path\":\"2_Dense\",\"type\":\"sentence_transformers.models.Dense\"},"
     "{\"path\":\"3_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]"},
    {"1_Pooling/config.json", "{\"word_embedding_dimension\":4}"},
    {"2_Dense/config.json", "{\"in_features\":4,\"out_features\":2,\"bias\":false}"},
    {"3_Normalize/config.json", NULL},
    {"sentence_bert_config.json", NULL},
    {"tokenizer_config.json", NULL},
    {"config_sentence_transformers.json", NULL},
    {"2_Dense/model.safetensors.index.json",
     "{\"weight_map\":{\"linear.weight\":\"a.safetensors\"}}"},
};
#define FILE_COUNT (sizeof(files) / sizeof(files[0]))

static wgt_folder folder;

static void close_folder(void)
{
    wgt_folder_close(&folder);
}

static void open_folder(void)
{
    static const char header[] =
        "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]}}";
    char shard[8 + sizeof(header) - 1 + 32] = {(char)(sizeof(header) - 1)};

    folder = wgt_folder_open();
    (void)atexit(close_folder);
    memcpy(shard + 8, header, sizeof(header) - 1);
    wgt_write(&folder, "2_Dense/a.safetensors", shard, sizeof(shard));
    for (size_t i = 0; i < FILE_COUNT; i++) {
        if (files[i].usual)
            wgt_write(&folder, files[i].name, files[i].usual, strlen(files[i].usual));
    }
}

static void restore(size_t which)
{
    char path[512];

    if (files[which].usual) {
        wgt_write(&folder, files[which].name, files[which].usual, strlen(files[which].usual));
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder.path, files[which].name);
    (void)unlink(path);
}

static void check_modules(const wgi_description *description)
{
    wgi_modules modules[2];
    wg_error err = {0};
    wg_status status = wgi_modules_load(&modules[0], folder.path, description, &err);

    expect(status == wgi_modules_load(&modules[1], folder.path, description, &err));
    if (status != WG_OK) {
        expect(strncmp(err.message, folder.path, strlen(folder.path)) == 0);
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        expect(modules[i].token_count_default >= 1);
        expect(modules[i].token_count_default <=
               description->position_count - description->position_offset);
        expect(modules[i].pooling != WG_POOLING_MODEL && modules[i].pooling != WG_POOLING_NONE);
        expect(modules[i].prompt_count == modules[0].prompt_count);
        expect(modules[i].dense_count <= WGI_DENSE_MAX);
    }
    for (uint32_t i = 0; i < modules[0].prompt_count; i++)
        expect(strcmp(modules[0].prompts[i], modules[1].prompts[i]) == 0);
    wgi_modules_fini(&modules[0]);
    wgi_modules_fini(&modules[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    wgi_description description;
    wg_error err = {0};

    if (count == 0) return 0;
    if (!folder.path[0]) open_folder();
    size_t which = (data[0] - (size_t)'0') % FILE_COUNT;
    wgt_write(&folder, files[which].name, data + 1, count - 1);

    if (wgi_description_load(&description, folder.path, &err) == WG_OK) {
        check_description(&description);
        expect(description.is_decoder ||
               description.head_dim * description.head_count == description.hidden_count);
        check_modules(&description);
    } else {
        expect(which == 0 && strncmp(err.message, folder.path, strlen(folder.path)) == 0);
    }
    restore(which);
    return 0;
}
