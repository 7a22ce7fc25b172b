"""Runs client programs: with a time limit, their output kept, ended by pid when they overrun."""
import os
import shutil
import subprocess

from . import paths

SECONDS_MAX = 90


def run(*command, stdin=None, seconds=SECONDS_MAX, check=True, env=None, cwd=None, binary=False):
    """The program's result; `check` makes a failure an assertion with what it printed."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    r = subprocess.run([str(c) for c in command], input=stdin, capture_output=True,
                       timeout=seconds, env={**os.environ, **(env or {})}, cwd=cwd)
    if check and r.returncode != 0:
        raise AssertionError(f"{command[0]} exited {r.returncode}\n"
                             f"{r.stdout[-3000:].decode(errors='replace')}\n"
                             f"{r.stderr[-5000:].decode(errors='replace')}")
    if not binary:
        r.stdout, r.stderr = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    return r


def kcat(server, *args, **kw):
    return run("kcat", "-b", server.bootstrap, *args, **kw)


def java(cls, *args, heap="256m", **kw):
    return run("java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-cp", paths.java_classpath(),
               cls, *args, **kw)


def node(script, *args, **kw):
    """A script runs beside the modules that ./dev installed, where `import` finds them."""
    where = paths.CACHE / "npm" / "run"
    where.mkdir(exist_ok=True)
    copy = where / f"{os.getpid()}-{script.name}"
    shutil.copy(script, copy)
    try:
        return run("node", copy, *args, cwd=where, **kw)
    finally:
        copy.unlink()
