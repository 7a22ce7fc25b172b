#!/usr/bin/env bash
# postgres.sh start DIR PORT | restart DIR | stop DIR: a real PostgreSQL server for tests, on
# 127.0.0.1:PORT and on a socket in DIR; user and database "postgres", no password. Cluster and log
# are in DIR, which goes to the server's user (postgres, when root calls). Needs the package
# postgresql. Text is sorted by the rules of English, so that whatever relies on the order of bytes
# must say so.
set -euo pipefail

# The newest server there is; Debian keeps them out of PATH.
bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)

as_server() {
        if [ "$(id -u)" = 0 ]; then
                (cd / && runuser -u postgres -- "$@")
        else
                "$@"
        fi
}

start() {
        local dir=$1 port=$2
        mkdir -p "$dir"
        [ "$(id -u)" != 0 ] || chown postgres: "$dir"
        as_server "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
                --locale-provider=icu --icu-locale=en-US --data-checksums
        as_server tee -a "$dir/data/postgresql.conf" >/dev/null <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$dir'
fsync = on
log_line_prefix = '%m %p '
END
        as_server "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 60 start
}

case ${1:-} in
start)
        dir=$(mkdir -p "$2" && cd "$2" && pwd)
        start "$dir" "$3" >"$dir.log" 2>&1 || {
                tail -n 20 "$dir.log" "$dir/log" >&2
                exit 1
        }
        ;;
restart) as_server "$bin/pg_ctl" -D "$2/data" -l "$2/log" -m fast -w -t 60 restart >/dev/null ;;
stop) as_server "$bin/pg_ctl" -D "$2/data" -m fast -w -t 60 stop >/dev/null ;;
*) echo "usage: postgres.sh start DIR PORT | restart DIR | stop DIR" >&2; exit 2 ;;
esac
