/*
 * test_buf.c - the growable run of bytes: contents, the NUL behind them, and that a failed append
 * leaves the buffer as it was.
 * LABELS: quick torture
 */
#include "base/buf.h"

#include "base/alloc.h"
#include "harness.h"

static wg_error err;

static void test_contents(void)
{
    wgi_buf buf = {0};
    char want[4000];

    for (int i = 0; i < 1000; i++) {
        EXPECT_OK(wgi_buf_printf(&buf, &err, "%03d,", i));
        (void)snprintf(want + 4 * i, 5, "%03d%s", i, i < 999 ? "," : "");
    }
    EXPECT_EQ(buf.count, 4000);
    EXPECT_EQ(buf.data[buf.count], 0);
    EXPECT_EQ(buf.data[--buf.count], ',');
    buf.data[buf.count] = 0;
    EXPECT_TEXT(buf.data, want);
    buf.count = 0;
    EXPECT_OK(wgi_buf_append(&buf, "a\0b", 3, &err));
    EXPECT_OK(wgi_buf_append(&buf, NULL, 0, &err));
    EXPECT_OK(wgi_buf_text(&buf, "c", &err));
    EXPECT(buf.count == 4 && memcmp(buf.data, "a\0bc", 5) == 0);
    wgi_buf_fini(&buf);
    EXPECT(buf.data == NULL && buf.count == 0 && buf.capacity == 0);
}

static void test_too_big(void)
{
    wgi_buf buf = {0};

    EXPECT_OK(wgi_buf_text(&buf, "kept", &err));
    EXPECT_EQ(wgi_buf_reserve(&buf, SIZE_MAX, &err), WG_ERR_NO_MEMORY);
    EXPECT_EQ(wgi_buf_reserve(&buf, SIZE_MAX - 4, &err), WG_ERR_NO_MEMORY);
    EXPECT_TEXT(buf.data, "kept");
    wgi_buf_fini(&buf);
}

static void test_no_memory(void)
{
    wgi_buf buf = {0};

    EXPECT_OK(wgi_buf_text(&buf, "kept", &err));
    wgi_alloc_fail_at(1);
    while (buf.count < 1000 && wgi_buf_text(&buf, "+", &err) == WG_OK)
        continue;
    wgi_alloc_fail_at(0);
    EXPECT(buf.count >= 4 && buf.count < 1000);
    EXPECT_EQ(err.status, WG_ERR_NO_MEMORY);
    EXPECT_EQ(strlen(buf.data), buf.count);
    EXPECT(strncmp(buf.data, "kept", 4) == 0);
    wgi_buf_fini(&buf);
}

int main(void)
{
    test_contents();
    test_too_big();
    test_no_memory();
    return wgt_result();
}
