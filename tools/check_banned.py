#!/usr/bin/env python3
"""Finds calls that the style forbids: unsafe ones everywhere, malloc outside base/, calls to the
operating system outside sys/, libraries outside the folder that owns them.

Tests (x_test.c, test_kit.*, x_test_kit.h) may allocate and call the operating system as they like.
"""
import re
import sys

from source import c_files, relative, report, without_comments

# (what it is, pattern of the name, folders that may, tests may)
RULES = [
    ("no bound or no error", r"strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|"
     r"atof|strtol|strtoll|strtoul|strtoull|alloca|scanf|sscanf|fscanf|strncpy|strncat", (), True),
    ("memory outside base/", r"malloc|calloc|realloc|free|strdup|strndup|posix_memalign|"
     r"aligned_alloc|asprintf|reallocarray", ("src/base/",), True),
    ("the operating system outside sys/", r"open|openat|creat|close|read|write|pread|pwrite|"
     r"readv|writev|pwritev|preadv|lseek|fsync|fdatasync|sync_file_range|fallocate|ftruncate|"
     r"rename|renameat|unlink|unlinkat|rmdir|mkdir|mkdirat|opendir|readdir|stat|fstat|"
     r"lstat|flock|fcntl|mmap|munmap|socket|bind|listen|accept|accept4|connect|send|recv|sendmsg|"
     r"recvmsg|sendto|recvfrom|setsockopt|getsockopt|getaddrinfo|poll|epoll_wait|select|fork|"
     r"execv|execve|system|popen|waitpid|kill|signal|sigaction|fopen|fread|fwrite|fclose|"
     r"getenv|usleep|sleep|nanosleep|dlopen",
     ("src/sys/", "src/base/log.c", "src/cli/"), True),
    # base/clock.c is the interface's real clock, base/log.c the log's last resort, cli/ prints.
    ("clocks and chance outside sys/", r"time|clock|clock_gettime|gettimeofday|localtime|"
     r"localtime_r|rand|rand_r|srand|random|getrandom|arc4random",
     ("src/sys/", "src/base/clock.c"), True),
    ("threads made outside sys/", r"pthread_create|pthread_join|pthread_detach|thrd_\w+", ("src/sys/",), True),
    ("libuv outside sys/", r"uv_\w+", ("src/sys/",), True),
    ("SQLite outside meta/sqlite/", r"sqlite3_\w+", ("src/meta/",), True),
    ("libpq outside meta/postgres/", r"PQ\w+", ("src/meta/postgres/",), True),
    ("libmicrohttpd outside net/", r"MHD_\w+", ("src/net/",), False),
]
COMPILED = [(what, re.compile(rf"(?<![\w.>])({names})\s*\("), may, tests)
            for what, names, may, tests in RULES]
# A line may say why it must: /* banned: reason */
EXCUSE = re.compile(r"/\* banned: .+\*/")


def is_test(name):
    return name.endswith(("_test.c", "_test_kit.h")) or "/test_kit." in name


def check(path):
    name, raw = str(relative(path)), path.read_text()
    lines, excused = without_comments(raw).splitlines(), raw.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        for what, pattern, may, tests in COMPILED:
            if name.startswith(may) or (tests and is_test(name)):
                continue
            m = pattern.search(line)
            if m and not EXCUSE.search(excused[number - 1]):
                yield f"{name}:{number}: {m.group(1)}(): {what}"


def main():
    return report([p for f in c_files() for p in check(f)], "banned calls")


if __name__ == "__main__":
    sys.exit(main())
