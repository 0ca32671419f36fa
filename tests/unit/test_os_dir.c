/*
 * test_os_dir.c - listing, order, and what a path is.
 * LIBRARIES: wgi_base
 */
#include "reader_folder.h"

#include "base/alloc.h"
#include "base/os_dir.h"

int main(void)
{
    wgi_dir dir = {0};
    wgi_path_info info, again;
    wg_error err;

    wgt_folder_make();
    (void)wgt_put_text("z\xFF", "");
    (void)wgt_put_text("aa", "");
    (void)wgt_put_text("a0", "12345");
    (void)wgt_put_text("a-", "");
    (void)wgt_put_text("a.b", "");
    EXPECT_EQ(mkdir(wgt_in("a"), 0700), 0); /* as "a/" it comes behind "a-" and "a.b" */
    EXPECT_EQ(symlink("a", wgt_in("link")), 0);
    EXPECT_EQ(symlink("nowhere", wgt_in("lost")), 0);
    EXPECT_EQ(symlink("round", wgt_in("round")), 0);

    EXPECT_OK(wgi_dir_list(&dir, wgt_folder, &err));
    EXPECT_EQ(dir.count, 9);
    static const char *const order[] = {"a-",   "a.b",  "a",     "a0",   "aa",
                                        "link", "lost", "round", "z\xFF"};
    for (size_t i = 0; i < dir.count && i < 9; i++) {
        EXPECT_TEXT(dir.items[i].name, order[i]);
        bool is_directory = strcmp(order[i], "a") == 0 || strcmp(order[i], "link") == 0;
        EXPECT_EQ(dir.items[i].is_directory, is_directory);
    }
    wgi_dir_fini(&dir);

    EXPECT_OK(wgi_path_look(wgt_in("a0"), &info, &err));
    EXPECT_EQ(info.kind, WGI_PATH_FILE);
    EXPECT_EQ(info.bytes, 5);
    EXPECT_OK(wgi_path_look(wgt_in("a"), &info, &err));
    EXPECT_OK(wgi_path_look(wgt_in("link"), &again, &err));
    EXPECT_EQ(info.kind, WGI_PATH_DIRECTORY);
    EXPECT(info.inode == again.inode && info.device == again.device);
    EXPECT_OK(wgi_path_look("/dev/null", &info, &err));
    EXPECT_EQ(info.kind, WGI_PATH_OTHER);
    EXPECT_EQ(wgi_path_look(wgt_in("lost"), &info, &err), WG_ERR_IO);
    EXPECT_IN(err.message, "No such file");
    EXPECT_EQ(wgi_path_look(wgt_in("round"), &info, &err), WG_ERR_IO);
    EXPECT_IN(err.message, "symbolic links");
    EXPECT_EQ(wgi_dir_list(&dir, wgt_in("a0"), &err), WG_ERR_IO);
    wgi_dir_fini(&dir);

    for (long nth = 1;; nth++) {
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_dir_list(&dir, wgt_folder, &err);
        wgi_alloc_fail_at(0);
        wgi_dir_fini(&dir);
        if (status == WG_OK) {
            EXPECT(nth > 1);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
    wgt_folder_drop();
    return wgt_result();
}
