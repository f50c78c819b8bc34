#!/usr/bin/env bash
# Usage: scripts/setup/packages.sh GROUP
# Ensures that the Debian packages of a group are installed. As root, it installs missing packages.
# Otherwise, or if apt-get fails, it prints the command to type and returns normally. Tests that
# need the packages are then skipped with a message.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

# Each line names a required command or file, and the package that provides it.
case "${1:?which group of packages: test, demo, php, lint, fuzz or bench}" in
    test) wanted='redis-server redis-server
redis-cli redis-tools
memcached memcached
c++ g++
pkg-config pkg-config
valgrind valgrind
chromium chromium
mkfs.ext4 e2fsprogs
mkfs.xfs xfsprogs
mkfs.btrfs btrfs-progs' ;;
    demo) wanted='redis-server redis-server
redis-cli redis-tools' ;;
    php) wanted='php php-cli
phpize php-dev
php-fpm8.2 php-fpm
nginx nginx-light
valgrind valgrind
phpunit phpunit
redis-server redis-server
/usr/share/php/Predis/Client.php php-nrk-predis
/etc/php/*/mods-available/redis.ini php-redis
/etc/php/*/mods-available/apcu.ini php-apcu
/usr/share/php/Cache/IntegrationTests/CachePoolTest.php php-cache-integration-tests
/usr/share/php/Symfony/Component/Cache/autoload.php php-symfony-cache
/usr/share/php/Illuminate/Redis/autoload.php php-illuminate-redis
/usr/share/php/Illuminate/Cache/autoload.php php-illuminate-cache
/usr/share/php/Illuminate/Queue/autoload.php php-illuminate-queue
/usr/share/php/Illuminate/Container/autoload.php php-illuminate-container
/usr/share/php/Illuminate/Events/autoload.php php-illuminate-events
/etc/php/*/mods-available/igbinary.ini php-igbinary
/etc/php/*/mods-available/msgpack.ini php-msgpack
/usr/share/i18n/locales/de_DE locales' ;;
    lint) wanted='shellcheck shellcheck' ;;
    fuzz) wanted='c++ g++' ;;
    bench) wanted='redis-server redis-server
redis-benchmark redis-tools
valgrind valgrind
mariadbd mariadb-server
perf linux-perf
strace strace
ab apache2-utils' ;;
    *) fail "no such group of packages: $1 (expected test, demo, php, lint, fuzz or bench)" ;;
esac

missing=()
while read -r command package; do
    case $command in
        /*) compgen -G "$command" >/dev/null || missing+=("$package") ;;
        *) have "$command" || missing+=("$package") ;;
    esac
done <<<"$wanted"
((${#missing[@]})) || exit 0

if ! have apt-get; then
    skip "everything that needs ${missing[*]}: not installed, and apt-get is not available"
    exit 0
fi
if ((EUID != 0)); then
    skip "everything that needs ${missing[*]}: not installed; type: sudo apt-get install ${missing[*]}"
    exit 0
fi

# Prevent services from starting during the installation: Debian starts a server when its package is
# installed, but the tests start their own servers on free ports.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

say "apt-get install ${missing[*]}"
mkdir -p target/test
log=target/test/apt.log
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        "${missing[@]}" </dev/null >>"$log" 2>&1
}
# Update the package lists only if the installation fails with the existing lists.
if ! install && ! { apt-get update --quiet </dev/null >>"$log" 2>&1 && install; }; then
    skip "everything that needs ${missing[*]}: apt-get failed, see $log"
    exit 0
fi

# Disable the services of servers that are installed here, so that they do not start at boot.
for package in "${missing[@]}"; do
    case $package in
        redis-server) service=redis-server ;;
        memcached) service=memcached ;;
        mariadb-server) service=mariadb ;;
        *) continue ;;
    esac
    ! have update-rc.d || update-rc.d "$service" disable >>"$log" 2>&1 || true
done
