/*
 * test_os_map.c - mapping of files, and the nth allocation failing in turn.
 * LABELS: quick torture
 */
#include "harness.h"

#include "base/alloc.h"
#include "base/os_map.h"

int main(void)
{
    wg_error err;
    wgi_map *map = NULL;
    const char *self = WGT_DATA "/README.md";

    EXPECT_OK(wgi_map_open(&map, self, &err));
    EXPECT(map && map->bytes > 10 && map->data[0] == '#');
    if (map) wgi_map_drop(map, map->data, map->bytes);
    EXPECT(map && map->data[0] == '#'); /* dropped pages come back from the file */
    wgi_map_close(map);
    wgi_map_close(NULL);

    EXPECT_EQ(wgi_map_open(&map, WGT_DATA, &err), WG_ERR_IO);
    EXPECT_IN(err.message, "not a regular file");
    EXPECT_EQ(wgi_map_open(&map, WGT_DATA "/nothing-here", &err), WG_ERR_IO);
    EXPECT_IN(err.message, "nothing-here: No such file");
    EXPECT(map == NULL);

    for (long nth = 1;; nth++) {
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_map_open(&map, self, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 1); /* else the hook was never in the path */
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(map == NULL);
    }
    wgi_map_close(map);
    return wgt_result();
}
