/* sys/file_int.h - what file.c and tree.c share. Only for this folder. */
#pragma once
#include "sys/file.h"

struct stat;

struct ls_file {
        int fd;
};

/* Outcome or failure for the errno of a file call. */
ls_err file_err(int errnum);
/* Wraps an open descriptor; closes it when it is not a plain file (LS_INVALID). */
LS_MUST_USE ls_err file_wrap(int fd, struct ls_file **ret_file);
/* Reads the first `bytes_max` bytes from `pos`, fewer at the end of the file. */
LS_MUST_USE ls_err file_read_some(int fd, uint64_t pos, uint8_t *ret_bytes, size_t bytes_max,
                                  size_t *ret_len);
LS_MUST_USE ls_err file_write_all(int fd, uint64_t pos, const ls_span *spans, size_t count);
int64_t file_stat_ms(const struct stat *st);

#define FILE_MODE 0640
#define DIR_MODE  0750
