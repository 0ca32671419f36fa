/*
 * os_read.c - input bytes from descriptors; see os_read.h.
 *
 * A regular file is read at once; a pipe or a socket is waited for together with an eventfd, so a
 * job can be stopped while its producer is silent. Refused: a signal to break a blocking read (the
 * library owns no signals of its host). The hooks stand before the system call and stay in every
 * build, so torture tests run on the code that ships.
 *
 * Threads: any, one a descriptor; the hooks are atomic.
 */
#include "base/os_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long countdown; /* 0: off; 1: the next read fails, and so does every later one */
static atomic_size_t bytes_max;

void wgi_read_fail_at(long nth)
{
    atomic_store(&countdown, nth);
}

void wgi_read_bytes_max(size_t bytes)
{
    atomic_store(&bytes_max, bytes);
}

static bool hook_fails(void)
{
    long left = atomic_load(&countdown);

    if (left > 1) atomic_store(&countdown, left - 1);
    return left == 1;
}

/* read(2) behind the hooks. */
static ssize_t read_hooked(int fd, void *into, size_t capacity)
{
    size_t most = atomic_load(&bytes_max);

    if (hook_fails()) {
        errno = EIO;
        return -1;
    }
    return read(fd, into, most && most < capacity ? most : capacity);
}

int wgi_fd_lift(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int kept = errno;
    (void)close(fd);
    errno = kept;
    return lifted;
}

wg_status wgi_read_open(int *fd, const char *path, wg_error *err)
{
    do {
        *fd = wgi_fd_lift(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0) return wgi_fail(err, WG_ERR_IO, "cannot be opened: %s", strerror(errno));
    return WG_OK;
}

void wgi_read_close(int fd)
{
    if (fd >= 0) (void)close(fd); /* nothing was written through it, so nothing can be lost */
}

wgi_read_kind wgi_read_look(int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0) return WGI_READ_CLOSED;
    if (S_ISREG(info.st_mode)) return WGI_READ_FILE;
    if (S_ISDIR(info.st_mode)) return WGI_READ_DIRECTORY;
    return isatty(fd) ? WGI_READ_TERMINAL : WGI_READ_STREAM;
}

/* Until fd has something to say, or stop_fd is raised. */
static wg_status wait_readable(int fd, int stop_fd, wg_error *err)
{
    struct pollfd polled[2] = {{.fd = fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};

    while (poll(polled, 2, -1) < 0) {
        if (errno != EINTR) return wgi_fail(err, WG_ERR_IO, "poll: %s", strerror(errno));
    }
    if (polled[1].revents) return wgi_fail(err, WG_ERR_INTERRUPTED, "reading was stopped");
    return WG_OK;
}

wg_status wgi_read_some(int fd, bool can_wait, int stop_fd, void *into, size_t capacity,
                        size_t *got, wg_error *err)
{
    *got = 0;
    for (;;) {
        if (can_wait) {
            wg_status status = wait_readable(fd, stop_fd, err);
            if (status != WG_OK) return status;
        }
        ssize_t count = read_hooked(fd, into, capacity);
        if (count >= 0) {
            *got = (size_t)count;
            return WG_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            can_wait = true;
        else if (errno != EINTR)
            return wgi_fail(err, WG_ERR_IO, "reading failed: %s", strerror(errno));
    }
}

wg_status wgi_read_now(int fd, void *into, size_t capacity, size_t *got, bool *is_end,
                       wg_error *err)
{
    ssize_t count;

    *got = 0;
    *is_end = false;
    do {
        count = read_hooked(fd, into, capacity);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return WG_OK;
    if (count < 0) return wgi_fail(err, WG_ERR_IO, "reading failed: %s", strerror(errno));
    *got = (size_t)count;
    *is_end = count == 0;
    return WG_OK;
}

wg_status wgi_stop_open(int *stop_fd, wg_error *err)
{
    *stop_fd = wgi_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (*stop_fd < 0) return wgi_fail(err, WG_ERR_IO, "eventfd: %s", strerror(errno));
    return WG_OK;
}

void wgi_stop_raise(int stop_fd)
{
    int kept = errno; /* a signal handler must not change it */
    uint64_t one = 1;
    ssize_t written = write(stop_fd, &one, sizeof(one)); /* fails only when it is up already */

    (void)written;
    errno = kept;
}

bool wgi_stop_is_raised(int stop_fd)
{
    struct pollfd polled = {.fd = stop_fd, .events = POLLIN};

    return poll(&polled, 1, 0) > 0;
}

wg_status wgi_memory_file_open(int *fd, wg_error *err)
{
    *fd = wgi_fd_lift(memfd_create("warpgroup-input", MFD_CLOEXEC));
    if (*fd < 0) return wgi_fail(err, WG_ERR_IO, "memfd_create: %s", strerror(errno));
    return WG_OK;
}

wg_status wgi_memory_file_write(int fd, const void *bytes, size_t count, wg_error *err)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t written = write(fd, at, count);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return wgi_fail(err, WG_ERR_IO, "a copy in memory cannot be written: %s",
                            strerror(errno));
        at += written;
        count -= (size_t)written;
    }
    return WG_OK;
}
