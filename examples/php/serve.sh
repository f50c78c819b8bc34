#!/usr/bin/env bash
# Usage: serve.sh PLACE PORT URL [EXTENSION]
# Serves the guest book with PHP-FPM and nginx on a local port, with its data at URL. The servers
# write to the directory PLACE. The script runs until it is interrupted.

set -euo pipefail

if (($# < 3)); then
    echo "usage: serve.sh PLACE PORT URL [EXTENSION]" >&2
    exit 2
fi
place=$1 port=$2 url=$3 extension=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
# compgen fails without output if no PHP-FPM is installed.
fpm=$(compgen -c php-fpm | sort | tail -n 1) || fpm=
for program in "${fpm:-php-fpm}" nginx; do
    if ! command -v "$program" >/dev/null; then
        echo "serve.sh: $program is missing; on Debian type: apt-get install php-fpm nginx" >&2
        exit 1
    fi
done
mkdir -p "$place"
cat >"$place/fpm.conf" <<END
[global]
daemonize = no
error_log = $place/fpm.log
[www]
listen = $place/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 4
env[UNDERCROFT_URL] = $url
END
((EUID)) || printf 'user = root\ngroup = root\n' >>"$place/fpm.conf"
{
    ((EUID)) || echo 'user root;'
    cat <<END
daemon off;
pid $place/nginx.pid;
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
        location = / {
            fastcgi_pass unix:$place/fpm.sock;
            fastcgi_param SCRIPT_FILENAME $here/site.php;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param CONTENT_TYPE \$content_type;
            fastcgi_param CONTENT_LENGTH \$content_length;
            fastcgi_param UNDERCROFT_URL $url;
        }
    }
}
END
} >"$place/nginx.conf"
options=(-d zend_extension=opcache.so)
((EUID)) || options+=(--allow-to-run-as-root)
[[ ! $extension ]] || options+=(-d "extension=$extension")
"$fpm" -n "${options[@]}" --fpm-config "$place/fpm.conf" >"$place/fpm.out" 2>&1 &
fpm_pid=$!
nginx -p "$place" -c "$place/nginx.conf" -e "$place/nginx.log" >"$place/nginx.out" 2>&1 &
nginx_pid=$!
trap 'kill "$fpm_pid" "$nginx_pid" 2>/dev/null || true; wait || true' EXIT
trap 'exit 0' INT TERM
wait -n
cat "$place"/*.log "$place"/*.out >&2
exit 1
