#!/usr/bin/env bash
# Installs the C library in PREFIX (default /usr/local): the header, the shared and the static
# library, and the pkg-config file. DESTDIR is prepended to every path, for packages. BUILT
# specifies the directory of an existing build.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

prefix=${PREFIX:-/usr/local}
[[ $prefix == /* ]] || fail "expected PREFIX to begin with a slash, got $prefix"
built=${BUILT:-}
if [[ ! $built ]]; then
    say "building the C library"
    cargo build --release --locked --package undercroft-c
    built=target/release
fi

header=clients/c/undercroft.h
abi=$(sed -n 's/^#define UC_ABI_VERSION \([0-9]*\)$/\1/p' "$header")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $abi && $version ]] || fail "found no UC_ABI_VERSION in $header, or no version in Cargo.toml"
soname=libundercroft.so.$((abi >> 16))

to=${DESTDIR:-}$prefix
install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$header" "$to/include/undercroft.h"
# Join all objects into one that exposes only the interface's names, because a program may have its
# own Lua or Rust code.
for tool in ld objcopy ar; do
    have "$tool" || fail "the static library needs $tool; type: apt-get install binutils"
done
joined=$(mktemp)
trap 'rm -f "$joined"' EXIT
mapfile -t names <clients/c/tests/exports.txt
ld -r "${names[@]/#/--undefined=}" -o "$joined" "$built/libundercroft_c.a"
# The removed sections contain intermediate code for link-time optimization, which is useless in a
# joined object.
objcopy --wildcard --keep-global-symbol='uc_*' --remove-section=.llvmbc --remove-section=.llvmcmd "$joined"
rm -f "$to/lib/libundercroft.a"
ar rcs "$to/lib/libundercroft.a" "$joined"
chmod 644 "$to/lib/libundercroft.a"
install -m 755 "$built/libundercroft_c.so" "$to/lib/$soname.$((abi & 0xffff))"
# Strip the debug information except for function names.
! have strip || strip --strip-debug "$to/lib/libundercroft.a" "$to/lib/$soname.$((abi & 0xffff))"
ln -sf "$soname.$((abi & 0xffff))" "$to/lib/$soname"
ln -sf "$soname" "$to/lib/libundercroft.so"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" clients/c/undercroft.pc.in >"$to/lib/pkgconfig/undercroft.pc"
chmod 644 "$to/lib/pkgconfig/undercroft.pc"
say "installed in $to"
