/*
 * os_file.c - the system calls of writing; see os_file.h.
 *
 * Files are claimed with O_EXCL: between a check and an open somebody else could make the file.
 * There is no buffering here (output/stream.c has it), and no stdio: a FILE hides how much of a
 * failed write arrived, and its close can fail for a write long ago.
 *
 * Threads: calls on different files never meet; the hooks are for single-threaded tests.
 */
#include "base/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long countdown; /* 0: off; 1: the next call fails, and so does every later one */
static atomic_bool is_once, has_failed;
static atomic_size_t write_bytes_max;

void wgi_os_fail_at(long nth)
{
    atomic_store(&countdown, nth < 0 ? -nth : nth);
    atomic_store(&is_once, nth < 0);
    atomic_store(&has_failed, false);
}

bool wgi_os_has_failed(void)
{
    return atomic_load(&has_failed);
}

void wgi_os_write_bytes_max(size_t max)
{
    atomic_store(&write_bytes_max, max);
}

/* Stands before every system call that can fail. */
static bool may_call(void)
{
    long left = atomic_load(&countdown);

    if (left == 0) return true;
    if (left > 1) {
        atomic_store(&countdown, left - 1);
        return true;
    }
    atomic_store(&has_failed, true);
    if (atomic_load(&is_once)) atomic_store(&countdown, 0);
    errno = ENOSPC;
    return false;
}

static wg_status fail_errno(wg_error *err, const char *name)
{
    return wgi_fail(err, errno == ENOMEM ? WG_ERR_NO_MEMORY : WG_ERR_IO, "%s: %s", name,
                    strerror(errno));
}

/* Fills what is known of an open descriptor. */
static bool look(wgi_file *file)
{
    struct stat info;

    if (!may_call() || fstat(file->fd, &info) != 0) return false;
    file->is_regular = S_ISREG(info.st_mode);
    file->device = (uint64_t)info.st_dev;
    file->inode = (uint64_t)info.st_ino;
    return true;
}

/* Is there something at the path that takes bytes and keeps none? */
static bool is_stream(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode));
}

wg_status wgi_file_create(wgi_file *out, const char *path, wg_error *err)
{
    wgi_file file = WGI_FILE_CLOSED;

    *out = WGI_FILE_CLOSED;
    if (is_stream(path)) {
        do {
            if (!may_call()) return fail_errno(err, path);
            file.fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        } while (file.fd < 0 && errno == EINTR);
    } else {
        if (!may_call()) return fail_errno(err, path);
        file.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        file.is_created = file.fd >= 0;
    }
    if (file.fd < 0 && errno == EEXIST)
        return wgi_fail(
            err, WG_ERR_IO,
            "%s: exists already, and an existing file is never written over: remove it or "
            "choose another name",
            path);
    if (file.fd < 0 && errno == ENOENT)
        return wgi_fail(err, WG_ERR_IO,
                        "%s: the directory that it should be made in does not exist", path);
    if (file.fd < 0) return fail_errno(err, path);
    if (!look(&file)) {
        wg_status status = fail_errno(err, path);
        (void)close(file.fd);
        if (file.is_created) wgi_path_remove(path);
        return status;
    }
    *out = file;
    return WG_OK;
}

wg_status wgi_file_standard(wgi_file *out, int fd, const char *name, wg_error *err)
{
    wgi_file file = WGI_FILE_CLOSED;

    *out = WGI_FILE_CLOSED;
    if (may_call()) file.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (file.fd < 0) return fail_errno(err, name);
    if (!look(&file)) {
        wg_status status = fail_errno(err, name);
        (void)close(file.fd);
        return status;
    }
    *out = file;
    return WG_OK;
}

/* Writes at `offset`, or where the file stands when offset is -1. */
static wg_status write_all(const wgi_file *file, const char *name, off_t offset, const char *bytes,
                           size_t count, wg_error *err)
{
    size_t max = atomic_load(&write_bytes_max);

    while (count > 0) {
        size_t part = max && count > max ? max : count;
        ssize_t written = -1;
        if (part > SSIZE_MAX) part = SSIZE_MAX;
        if (may_call()) {
            written =
                offset < 0 ? write(file->fd, bytes, part) : pwrite(file->fd, bytes, part, offset);
        }
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail_errno(err, name);
        if (written == 0) return wgi_fail(err, WG_ERR_IO, "%s: nothing more can be written", name);
        bytes += written;
        count -= (size_t)written;
        if (offset >= 0) offset += written;
    }
    return WG_OK;
}

wg_status wgi_file_write(const wgi_file *file, const char *name, const void *bytes, size_t count,
                         wg_error *err)
{
    return write_all(file, name, -1, bytes, count, err);
}

wg_status wgi_file_write_at(const wgi_file *file, const char *name, uint64_t offset,
                            const void *bytes, size_t count, wg_error *err)
{
    if (offset > INT64_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "%s: the file would grow too large", name);
    return write_all(file, name, (off_t)offset, bytes, count, err);
}

void wgi_file_cut(const wgi_file *file, uint64_t bytes)
{
    if (file->fd < 0 || !file->is_regular || bytes > INT64_MAX) return;
    if (ftruncate(file->fd, (off_t)bytes) == 0) (void)lseek(file->fd, 0, SEEK_END);
}

wg_status wgi_file_sync(const wgi_file *file, const char *name, wg_error *err)
{
    int result;

    if (!file->is_regular) return WG_OK;
    do {
        result = may_call() ? fsync(file->fd) : -1;
    } while (result != 0 && errno == EINTR);
    /* Some file systems have no such thing, and say so. */
    if (result != 0 && errno != EINVAL && errno != ENOTSUP) return fail_errno(err, name);
    return WG_OK;
}

wg_status wgi_file_close(wgi_file *file, const char *name, wg_error *err)
{
    int fd = file->fd;

    if (fd < 0) return WG_OK;
    *file = WGI_FILE_CLOSED;
    /* After EINTR Linux has closed the descriptor: calling again could close somebody else's. */
    bool is_failed = !may_call();
    if (close(fd) != 0 && errno != EINTR) is_failed = true;
    return is_failed ? fail_errno(err, name) : WG_OK;
}

/* Makes every directory on the way to a file; what is there already is fine. */
static void make_parents(const char *path)
{
    char directory[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t count = (size_t)(slash - path);
        if (count >= sizeof(directory)) return;
        memcpy(directory, path, count);
        directory[count] = 0;
        (void)mkdir(directory, 0777); /* a failure shows when the file is opened */
    }
}

wg_status wgi_file_append_line(const char *path, const char *line, size_t count, wg_error *err)
{
    if (*path) make_parents(path);
    int fd = may_call() ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd < 0) return fail_errno(err, path);
    ssize_t written = may_call() ? write(fd, line, count) : -1;
    wg_status status = WG_OK;
    if (written < 0)
        status = fail_errno(err, path);
    else if ((size_t)written != count)
        status = wgi_fail(err, WG_ERR_IO, "%s: a line was cut", path);
    if (close(fd) != 0 && status == WG_OK) status = fail_errno(err, path);
    return status;
}

wg_status wgi_directory_create(const char *path, wg_error *err)
{
    if (may_call() && mkdir(path, 0777) == 0) return WG_OK;
    if (errno == EEXIST)
        return wgi_fail(
            err, WG_ERR_IO,
            "%s: exists already, and existing output is never written over: remove it or "
            "choose another name",
            path);
    if (errno == ENOENT)
        return wgi_fail(err, WG_ERR_IO,
                        "%s: the directory that it should be made in does not exist", path);
    return fail_errno(err, path);
}

wg_status wgi_directory_sync(const char *path, wg_error *err)
{
    wgi_file folder = {.fd = -1, .is_regular = true};

    if (may_call()) folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0) return fail_errno(err, path);
    wg_status status = wgi_file_sync(&folder, path, err);
    (void)close(folder.fd);
    return status;
}

void wgi_path_remove(const char *path)
{
    int kept = errno;

    (void)remove(path);
    errno = kept;
}

uint64_t wgi_path_file_bytes(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
}

wg_status wgi_path_real(wgi_buf *out, const char *path, wg_error *err)
{
    char real[PATH_MAX];

    if (!may_call() || !realpath(path, real)) return fail_errno(err, path);
    return wgi_buf_text(out, real, err);
}

bool wgi_descriptors_meet(int a, int b)
{
    struct stat left, right;

    return fstat(a, &left) == 0 && fstat(b, &right) == 0 && S_ISREG(left.st_mode) &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}
