/*
 * embed_two.c - embeds two strings and says how alike they are.
 *
 *     embed_two MODEL "first text" "second text"
 *
 * Built against an installed library: cc embed_two.c $(pkg-config --cflags --libs warpgroup)
 */
#include <warpgroup/warpgroup.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    wg_model *model = NULL;
    wg_error err;
    float *vectors = NULL; /* [2, dim] */
    double likeness = 0;
    int exit_status = 1;

    if (argc != 4) {
        fprintf(stderr, "usage: embed_two MODEL TEXT TEXT\n");
        return 2;
    }
    const char *texts[2] = {argv[2], argv[3]};

    if (wg_model_open(&model, &(wg_model_options){.path = argv[1]}, &err) != WG_OK) goto failed;
    size_t dim = wg_model_describe(model)->dim;
    size_t bytes = 2 * dim * sizeof(float);
    vectors = malloc(bytes);
    if (!vectors) goto cleanup;
    wg_embed_options options = {.normalize = 1};
    if (wg_model_embed(model, texts, NULL, 2, vectors, bytes, &options, &err) != WG_OK) goto failed;

    for (size_t i = 0; i < dim; i++)
        likeness += (double)vectors[i] * (double)vectors[dim + i];
    fprintf(stdout, "%zu numbers a text, cosine %.4f\n", dim, likeness);
    exit_status = 0;
    goto cleanup;

failed:
    fprintf(stderr, "%s\n", err.message);
cleanup:
    free(vectors);
    wg_model_close(model);
    return exit_status;
}
