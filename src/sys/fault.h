/* sys/fault.h - for tests: makes file calls fail, and shows what a power loss would leave on the
 * disk.
 *
 * A test program that links sys_fault_dep has its file calls (those of our code; not of SQLite
 * or libuv) go through here: the linker's --wrap, so that nothing of it is in the server.
 *
 * Power loss: a file keeps what it held at its last sync, a folder the names it had at its last
 * sync; of everything later any part may be there or not, in units of 512 bytes and of names.
 * That is what POSIX promises; real file systems keep more.
 *
 * Threads: any. One test at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forgets everything; calls are counted from 0. */
void ls_fault_reset(void);
/* File calls since the reset. */
uint64_t ls_fault_calls(void);
/* Of the calls named `call` ("pwritev", "fsync", …; NULL: of all) since now, number `nth` (from
 * 0) fails with `errnum`, and with `for_good` all after it too. A failing pwritev has written
 * half. */
void ls_fault_fail(const char *call, uint64_t nth, int errnum, bool for_good);
/* The last call that was made to fail, or NULL. */
const char *ls_fault_failed(void);
/* From now on one pwritev takes at most so many bytes, one pread gives at most so many; 0: any. */
void ls_fault_short(size_t bytes_max);

/* Remembers the folder `dir` as what a power loss leaves, and each sync under it from now on. */
void ls_fault_record(const char *dir);
/* `fn` is called before each call that changes something, with its name, on its thread. It may call
 * ls_fault_image and anything that starts no thread and waits for none. */
void ls_fault_on_call(void (*fn)(void *ctx, const char *call), void *ctx);
/* Writes into the new folder `to` what a power loss now would leave. `seed` 0: only what is synced;
 * 1: everything; else each unsynced name and sector by chance. */
void ls_fault_image(const char *to, uint64_t seed);
