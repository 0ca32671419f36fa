/*
 * test_gzip.c - gzip on the way: members, padding, garbage, faults at every byte; memory bounded.
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include "base/os_memory.h"
#include "base/os_read.h"
#include "reader_folder.h"

static size_t slurp(const char *path, char *out, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t count = file ? fread(out, 1, room, file) : 0;

    if (file) (void)fclose(file);
    EXPECT(count > 0 && count < room);
    return count;
}

/* Cut at every byte: the records that came before the cut, then one failure that names it. */
static void test_cut_everywhere(void)
{
    static const char records[] = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n";
    char packed[300];
    size_t unchanged = 0;
    size_t count = slurp(wgt_put_gz("whole.jsonl.gz", records, sizeof(records) - 1), packed, 300);

    for (size_t cut = 2; cut < count; cut++) {
        wgt_reading got = wgt_read_path(wgt_put("cut.jsonl.gz", packed, cut));
        EXPECT(got.count >= 1 && got.count <= 3);
        for (size_t i = 0; i + 1 < got.count; i++)
            EXPECT_TEXT(got.documents[i].text, i ? "b" : "a");
        if (got.count) EXPECT_IN(got.documents[got.count - 1].reason, "truncated gzip");
        if (got.count) EXPECT_EQ(got.documents[got.count - 1].failure, WG_FAILURE_DAMAGED);
        wgt_reading_fini(&got);
    }
    /* A flipped bit never changes the texts without a word (some bits carry nothing). */
    for (size_t i = 0; i < count * 8; i++) {
        packed[i / 8] = (char)(packed[i / 8] ^ 1 << i % 8);
        wgt_reading got = wgt_read_path(wgt_put("bit.jsonl.gz", packed, count));
        bool is_same = got.count == 2 && got.counts.failures == 0 &&
                       strcmp(got.documents[0].text, "a") == 0 &&
                       strcmp(got.documents[1].text, "b") == 0;
        EXPECT(is_same || got.counts.failures > 0);
        unchanged += is_same;
        EXPECT_EQ(got.status, WG_OK);
        wgt_reading_fini(&got);
        packed[i / 8] = (char)(packed[i / 8] ^ 1 << i % 8);
    }
    EXPECT(unchanged < 80); /* time and system in the header, padding at the end */
}

/* Cut anywhere, also where a buffer is full of what a few bits unpack to: all of it is read. */
static void test_cut_behind_buffer(void)
{
    enum { RECORD = 32, COUNT = 300 * 1024 / RECORD };
    static char records[RECORD * COUNT], packed[RECORD * COUNT];

    for (size_t i = 0; i < sizeof(records); i += RECORD) {
        memset(records + i, 'a', RECORD - 1);
        records[i + RECORD - 1] = '\n';
    }
    size_t count = slurp(wgt_put_gz("w.gz", records, sizeof(records)), packed, sizeof(packed));
    /* A byte unpacks to hundreds: the buffer of 256 KiB is full at about 256 / 300 of them. */
    for (size_t cut = count * 4 / 5; cut < count * 9 / 10; cut++) {
        const char *path = wgt_put("behind.txt.gz", packed, cut);
        uint64_t documents[2];
        for (size_t i = 0; i < 2; i++) {
            wgi_read_bytes_max(i);
            wgt_reading got =
                wgt_read(&(wg_reader_options){.inputs = &path, .input_count = 1, .lines = 1});
            documents[i] = got.counts.documents;
            EXPECT_EQ(got.counts.failures, 1);
            wgt_reading_fini(&got);
        }
        wgi_read_bytes_max(0);
        EXPECT_EQ(documents[0], documents[1]);
    }
}

/* Two members with zeros between and garbage behind, in pieces of every size. */
static void test_members(void)
{
    char packed[1000] = {0};
    size_t count = slurp(wgt_put_gz("m", "{\"text\":\"on", 11), packed, 300);

    count += 100;
    count += slurp(wgt_put_gz("m", "e\"}\n", 4), packed + count, 300);
    memcpy(packed + count + 3, "junk", 4);
    for (size_t most = 0; most < 20; most++) {
        wgi_read_bytes_max(most);
        wgt_reading got = wgt_read_path(wgt_put("m.jsonl.gz", packed, count + 7));
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, 1);
        if (got.count == 1) EXPECT_TEXT(got.documents[0].text, "one");
        EXPECT_EQ(got.counts.warnings, 1);
        EXPECT_IN(got.log.data, "trailing garbage");
        wgt_reading_fini(&got);
    }
}

/* 100 MB of one text and of one record cost what the limits say, not what they unpack to. */
static void test_bomb(void)
{
    static char zeros[1 << 20];
    gzFile file = gzopen(wgt_in("bomb.txt.gz"), "wb9");
    const char *inputs[] = {wgt_in("bomb.txt.gz"), wgt_in("bomb.jsonl")};

    memset(zeros, 'x', sizeof(zeros));
    for (int i = 0; i < 100; i++)
        EXPECT(gzwrite(file, zeros, sizeof(zeros)) > 0);
    EXPECT_EQ(gzclose(file), Z_OK);
    EXPECT_EQ(symlink("bomb.txt.gz", wgt_in("bomb.jsonl")), 0);
    uint64_t before = wgi_memory_peak_rss();
    wgt_reading got = wgt_read(
        &(wg_reader_options){.inputs = inputs, .input_count = 2, .record_bytes_max = 4 << 20});
    EXPECT_EQ(got.count, 2);
    EXPECT_EQ(got.counts.failures, 2);
    if (!WGT_HAS_SANITIZER) EXPECT(wgi_memory_peak_rss() - before < 24u << 20);
    for (size_t i = 0; i < got.count; i++)
        EXPECT_EQ(got.documents[i].failure, WG_FAILURE_TOO_LONG);
    wgt_reading_fini(&got);
}

int main(void)
{
    wgt_folder_make();
    test_cut_everywhere();
    test_cut_behind_buffer();
    test_members();
    test_bomb();
    wgt_folder_drop();
    return wgt_result();
}
