#!/usr/bin/env bash
# Usage: run.sh EXTENSION PLACE KILLS
#
# Runs the extension in PHP-FPM workers that nginx proxies to, with opcache and its JIT, while
# workers are killed. PLACE is a directory for the servers' files. Sockets are created in it or on a
# free port of the loopback interface.

set -euo pipefail

extension=$1 place=$2 kills=$3
here=$(cd "$(dirname "$0")" && pwd)
fpm=$(compgen -c php-fpm | sort | tail -n 1)
rm -rf "$place"
mkdir -p "$place"
stores=$(mktemp -d /dev/shm/undercroft-fpm-XXXXXX)
# shellcheck disable=SC2016
port=$(php -n -r '$free = stream_socket_server("tcp://127.0.0.1:0");
    echo explode(":", stream_socket_get_name($free, false))[1];')

cat >"$place/fpm.conf" <<END
[global]
daemonize = no
error_log = $place/fpm.log
[www]
listen = $place/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 8
request_terminate_timeout = 1s
catch_workers_output = yes
END
((EUID)) || printf 'user = root\ngroup = root\n' >>"$place/fpm.conf"
{
    ((EUID)) || echo 'user root;'
    cat <<END
daemon off;
pid $place/nginx.pid;
error_log $place/nginx.log;
events {}
http {
    access_log off;
    client_body_temp_path $place/body;
    proxy_temp_path $place/proxy;
    fastcgi_temp_path $place/fastcgi;
    uwsgi_temp_path $place/uwsgi;
    scgi_temp_path $place/scgi;
    server {
        listen 127.0.0.1:$port;
        location / {
            fastcgi_pass unix:$place/fpm.sock;
            fastcgi_param SCRIPT_FILENAME $here/site.php;
            fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param UNDERCROFT_STORE $stores/store;
        }
    }
}
END
} >"$place/nginx.conf"

root=()
((EUID)) || root=(--allow-to-run-as-root)
"$fpm" -n "${root[@]}" --fpm-config "$place/fpm.conf" -d zend_extension=opcache.so -d "extension=$extension" \
    -d opcache.jit=tracing -d opcache.jit_buffer_size=32M -d log_errors=1 -d display_errors=0 >"$place/fpm.out" 2>&1 &
fpm_pid=$!
nginx -p "$place" -c "$place/nginx.conf" -e "$place/nginx.log" >"$place/nginx.out" 2>&1 &
nginx_pid=$!
trap 'kill "$fpm_pid" "$nginx_pid" 2>/dev/null || true; wait || true; rm -rf "$stores"' EXIT
for ((i = 0; i < 200; i++)); do
    [[ -S $place/fpm.sock ]] && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    kill -0 "$fpm_pid" "$nginx_pid" || { cat "$place"/*.log "$place"/*.out >&2; exit 1; }
    sleep 0.05
done
php -n -d "extension=$extension" "$here/storm.php" "$port" "$fpm_pid" "$kills" "$stores/store"
if grep -E 'signal (11|6|7|4|8)[^0-9]|SIGSEGV|SIGABRT|SIGBUS|Hard memory' "$place/fpm.log" "$place/fpm.out"; then
    echo "error: a worker ended unexpectedly" >&2
    exit 1
fi
[[ ! ${UNDERCROFT:-} ]] || "$UNDERCROFT" check --store "$stores/store"
