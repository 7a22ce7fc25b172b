/* sys/process.c - signals and limits of the program. See process.h. */
#include "sys/process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void
stop_signals(sigset_t *set)
{
        sigemptyset(set);
        sigaddset(set, SIGTERM);
        sigaddset(set, SIGINT);
}

void
ls_process_setup(void)
{
        struct rlimit files;
        sigset_t set;

        stop_signals(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of the write */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
}

int
ls_process_wait_stop(void)
{
        sigset_t set;
        int number = 0;

        stop_signals(&set);
        while (sigwait(&set, &number) != 0)
                ;
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return number;
}

void
ls_process_stop(void)
{
        kill(getpid(), SIGTERM);
}

uint64_t
ls_process_files_max(void)
{
        struct rlimit files;

        return getrlimit(RLIMIT_NOFILE, &files) == 0 ? (uint64_t)files.rlim_cur : 0;
}

void
ls_pause_ms(int64_t ms)
{
        poll(NULL, 0, (int)ms);
}

int64_t
ls_process_id(void)
{
        return getpid();
}

const char *
ls_process_env(const char *name)
{
        return getenv(name);
}

char *const *
ls_process_environment(void)
{
        return environ;
}

bool
ls_process_is_terminal(int stream)
{
        return isatty(stream) == 1;
}
