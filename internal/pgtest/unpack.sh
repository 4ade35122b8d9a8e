#!/usr/bin/env bash
# unpack.sh unpacks the Postgres of another Debian suite, with the libraries it
# needs, into a folder, without touching the system, and prints the folder of its
# programs, for HOLDFAST_TEST_POSTGRES. It uses the mirror that the machine is set
# up with, and fetches about 40 MB.
# usage: unpack.sh FOLDER [SUITE [VERSION]]
set -euo pipefail
suite=${2:-trixie} version=${3:-17}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
bin=$folder/files/usr/lib/postgresql/$version/bin
if "$bin/postgres" --version >/dev/null 2>&1; then
  echo "$bin"
  exit
fi
mkdir -p "$folder"/{lists/partial,debs,files}
mirror=$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/debian.sources)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$folder/sources.list"
suite_apt() {
  "$1" -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::Lists="$folder/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "${@:2}"
}
suite_apt apt-get -qq update
# All libraries that it depends on, and theirs; but not the compiler, which is
# as large as all the rest.
libraries=$(suite_apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
  "postgresql-$version" | grep -E '^lib' | grep -v -E 'llvm|perl|python|tcl' | sort -u)
(cd "$folder/debs" && suite_apt apt-get -qq download "postgresql-$version" patchelf $libraries)
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder/files"; done
# The programs start each other, so each must find its libraries by itself.
loader=$(readlink -f "$folder/files/usr/lib64/ld-linux-x86-64.so.2" 2>/dev/null || ls "$folder"/files/usr/lib/*/ld-linux-*.so.* | head -1)
path=$(dirname "$(ls "$folder"/files/usr/lib/*/libc.so.6)")
patch() { "$loader" --library-path "$path" "$folder/files/usr/bin/patchelf" "$@"; }
for program in "$bin"/*; do
  if [ "$(head -c 4 "$program" | tail -c 3)" = ELF ]; then
    patch --set-interpreter "$loader" --force-rpath --set-rpath "$path" "$program"
  fi
done
rm -rf "$folder/lists" "$folder/debs"
echo "$bin"
