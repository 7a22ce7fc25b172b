/* sys/process.h - what a program does once about itself: signals, limits.
 *
 * Threads: the main thread, before any other is started.
 */
#pragma once
#include "base/err.h"

/* Blocks the signals that end a server (SIGTERM, SIGINT) in this thread and all that it starts,
 * ignores SIGPIPE and SIGXFSZ, and raises the soft limit of open files to the hard one. */
void ls_process_setup(void);
/* Waits for SIGTERM or SIGINT and returns its number. After it both are unblocked and do what the
 * system does by default, so that a second one ends a drain that takes too long. */
int ls_process_wait_stop(void);
/* The same as if the signal had come: any thread. */
void ls_process_stop(void);
/* The limit of open files, as it now is. */
uint64_t ls_process_files_max(void);
/* Waits that long. Any thread; for programs, not for servers, which have timers. */
void ls_pause_ms(int64_t ms);
/* The process number. */
int64_t ls_process_id(void);
/* A variable of the environment; NULL when it is not set. Any thread. */
const char *ls_process_env(const char *name);
/* The environment, ended by NULL. */
char *const *ls_process_environment(void);
/* True when the standard stream (0 in, 1 out, 2 error) is a terminal. */
bool ls_process_is_terminal(int stream);
