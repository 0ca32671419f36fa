/*
 * test_os_fork.c - a child may return, crash, take too much memory or too long: the parent lives.
 */
#include "harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os_fork.h"

static int give_seven(void *context)
{
    *(int *)context = 8; /* in the child's copy only */
    return 7;
}

static int crash(void *context)
{
    (void)context;
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
    return 0;
}

static int hang(void *context)
{
    (void)context;
    for (;;)
        (void)pause();
    return 0;
}

static int touch(void *context)
{
    size_t bytes = *(size_t *)context;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) return 1;
    memset(memory, 1, bytes);
    return memory[bytes - 1] == 1 ? 0 : 2;
}

int main(void)
{
    wg_error err;
    wgi_fork_end end;
    int value = 1;
    size_t bytes = (size_t)200 << 20;

    EXPECT_OK(wgi_fork_run(give_seven, &value, 10000, &end, &err));
    EXPECT(end.is_exited);
    EXPECT_EQ(end.exit_code, 7);
    EXPECT_EQ(value, 1);

    EXPECT_OK(wgi_fork_run(crash, NULL, 10000, &end, &err));
    EXPECT(!end.is_exited);
    EXPECT_EQ(end.signal, SIGSEGV);

    EXPECT_OK(wgi_fork_run(hang, NULL, 50, &end, &err));
    EXPECT(end.is_timed_out);
    EXPECT_EQ(end.signal, SIGKILL);

    EXPECT_OK(wgi_fork_run(touch, &bytes, 60000, &end, &err));
    EXPECT_EQ(end.exit_code, 0);
    EXPECT(end.peak_bytes > bytes);
    return wgt_result();
}
