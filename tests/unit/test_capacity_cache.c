/*
 * test_capacity_cache.c - kept answers: found again by key, the last one holds, damaged or torn
 * lines and files that cannot be had cost nothing.
 */
#include "harness.h"
#include "temporary.h"

#include "job/capacity_cache.h"

int main(void)
{
    wgt_folder folder = wgt_folder_open();
    char path[256];
    static const char damaged[] = "not json\n{\"key\": 7}\n[]\n"
                                  "{\"key\": \"a\", \"capacity_tokens\": \"many\"}\n"
                                  "{\"key\": \"a\", \"capacity_tokens\": 0}\n"
                                  "{\"key\": \"a\", \"capacity_tokens\": 77}";
    wg_probe kept = {.capacity_tokens = 5000,
                     .knee_tokens = 1024,
                     .knee_tokens_per_s = 1234.5678901234567,
                     .best_tokens_per_s = 1e9,
                     .predicted_bytes = 1ull << 40,
                     .key = "a \"quoted\" key"};
    wg_probe found = {.key = "a \"quoted\" key"}, other = {.key = "another"};

    (void)snprintf(path, sizeof(path), "%s/deep/er/capacity.jsonl", folder.path);
    EXPECT(!wgi_capacity_cache_find(path, &found)); /* no file yet */
    wgi_capacity_cache_keep(path, &kept);
    EXPECT(wgi_capacity_cache_find(path, &found));
    EXPECT_EQ(found.capacity_tokens, 5000);
    EXPECT_EQ(found.knee_tokens, 1024);
    EXPECT(found.knee_tokens_per_s == kept.knee_tokens_per_s); /* to the last bit */
    EXPECT_EQ(found.predicted_bytes, kept.predicted_bytes);
    EXPECT(!wgi_capacity_cache_find(path, &other));
    EXPECT_EQ(other.capacity_tokens, 0);
    kept.capacity_tokens = 6000;
    wgi_capacity_cache_keep(path, &kept);
    EXPECT(wgi_capacity_cache_find(path, &found));
    EXPECT_EQ(found.capacity_tokens, 6000);

    wgt_write(&folder, "damaged.jsonl", damaged, strlen(damaged));
    (void)snprintf(path, sizeof(path), "%s/damaged.jsonl", folder.path);
    wg_probe a = {.key = "a"};
    EXPECT(!wgi_capacity_cache_find(path, &a)); /* the good line is torn: it has no end */

    EXPECT(!wgi_capacity_cache_find("", &found));
    wgi_capacity_cache_keep("", &kept);
    wgi_capacity_cache_keep("/proc/nowhere/capacity.jsonl", &kept); /* a warning at most */
    wgt_folder_close(&folder);
    return wgt_result();
}
