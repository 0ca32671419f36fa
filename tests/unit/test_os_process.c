/*
 * test_os_process.c - children: streams, ends, limits, and nothing left behind.
 */
#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os_process.h"
#include "base/os_read.h"

static wgi_process start(const char *script, wgi_process_options options)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    wgi_process process;
    wg_error err;

    options.argv = argv;
    if (options.stdin_fd == 0) options.stdin_fd = -1;
    EXPECT_OK(wgi_process_start(&process, &options, &err));
    return process;
}

static void read_all(int fd, char *out, size_t room)
{
    size_t count = 0, got;
    bool is_end = false;
    wg_error err;

    while (!is_end) {
        EXPECT_OK(wgi_process_wait(&fd, 1, -1, 1000, &err));
        EXPECT_OK(wgi_read_now(fd, out + count, room - count - 1, &got, &is_end, &err));
        count += got;
    }
    out[count] = 0;
}

static wgi_process_end end_of(wgi_process *process)
{
    wgi_process_end end;

    while (!wgi_process_ended(process, &end))
        (void)usleep(1000);
    wgi_process_kill(process);
    EXPECT_EQ(process->pid, 0);
    EXPECT_EQ(process->out_fd, -1);
    return end;
}

static void test_streams(void)
{
    char text[200];
    int file = -1;
    wg_error err;

    wgi_process process = start("cat; echo out; echo err >&2; exit 7", (wgi_process_options){0});
    read_all(process.out_fd, text, sizeof(text));
    EXPECT_TEXT(text, "out\n"); /* standard input is empty */
    read_all(process.err_fd, text, sizeof(text));
    EXPECT_TEXT(text, "err\n");
    wgi_process_end end = end_of(&process);
    EXPECT(end.is_known);
    EXPECT_EQ(end.exit_status, 7);

    EXPECT_OK(wgi_memory_file_open(&file, &err));
    EXPECT_OK(wgi_memory_file_write(file, "memory", 6, &err));
    process = start("cat /proc/self/fd/0", (wgi_process_options){.stdin_fd = file});
    read_all(process.out_fd, text, sizeof(text));
    EXPECT_TEXT(text, "memory");
    (void)end_of(&process);
    wgi_read_close(file);
}

/* Own group, no blocked or ignored signals, only the three standard streams. */
static void test_surroundings(void)
{
    char text[4000];
    sigset_t blocked, before;

    (void)sigfillset(&blocked);
    (void)sigprocmask(SIG_SETMASK, &blocked, &before);
    (void)signal(SIGINT, SIG_IGN);
    wgi_process process = start("exec cat /proc/self/status", (wgi_process_options){0});
    EXPECT_EQ(getpgid(process.pid), process.pid);
    read_all(process.out_fd, text, sizeof(text));
    EXPECT_IN(text, "SigBlk:\t0000000000000000");
    const char *ignored = strstr(text, "SigIgn:\t");
    EXPECT(ignored != NULL);
    /* Bits 31 and 32 are signals that the C library keeps for itself. */
    if (ignored) EXPECT_EQ(strtoull(ignored + 8, NULL, 16) & ~0x180000000u, 0);
    (void)end_of(&process);
    process = start("exec ls /proc/self/fd", (wgi_process_options){0});
    read_all(process.out_fd, text, sizeof(text));
    EXPECT_TEXT(text, "0\n1\n2\n3\n"); /* 3 is ls reading the directory */
    (void)end_of(&process);
    (void)signal(SIGINT, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void test_limits(void)
{
    char text[200];

    wgi_process process = start("ulimit -v; ulimit -t; ulimit -c",
                                (wgi_process_options){.memory_bytes = 300 << 20, .cpu_seconds = 5});
    read_all(process.out_fd, text, sizeof(text));
    EXPECT_TEXT(text, "307200\n5\n0\n");
    (void)end_of(&process);

    process = start("while :; do :; done", (wgi_process_options){.cpu_seconds = 1});
    wgi_process_end end = end_of(&process);
    EXPECT_EQ(end.exit_status, -1);
    EXPECT_EQ(end.signal, SIGXCPU);
}

static void test_kill(void)
{
    wgi_process_end end;
    char text[100];
    wgi_process process = start("sleep 60 & echo $!; wait", (wgi_process_options){0});

    size_t got = 0;
    bool is_end;
    wg_error err;
    while (got == 0) {
        EXPECT_OK(wgi_process_wait(&process.out_fd, 1, -1, 1000, &err));
        EXPECT_OK(wgi_read_now(process.out_fd, text, sizeof(text) - 1, &got, &is_end, &err));
    }
    text[got] = 0;
    EXPECT(!wgi_process_ended(&process, &end));
    wgi_process_kill(&process);
    wgi_process_kill(&process); /* a second time changes nothing */
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);

    /* What the child had started is gone too: dead, or a zombie of its new parent. */
    char path[60], state = 'Z';
    for (int i = 0; i < 100; i++) {
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)strtol(text, NULL, 10));
        FILE *file = fopen(path, "r");
        if (!file) break;
        if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'Z';
        (void)fclose(file);
        if (state == 'Z') break;
        (void)usleep(1000);
    }
    EXPECT_EQ(state, 'Z');
}

static void test_no_program(void)
{
    const char *argv[] = {"no-such-program-here", NULL};
    wgi_process process;
    wg_error err;

    EXPECT_EQ(
        wgi_process_start(&process, &(wgi_process_options){.argv = argv, .stdin_fd = -1}, &err),
        WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "the program no-such-program-here was not found in PATH");
    EXPECT_EQ(process.pid, 0);
    wgi_process_kill(&process);
}

int main(void)
{
    test_streams();
    test_surroundings();
    test_limits();
    test_kill();
    test_no_program();
    return wgt_result();
}
