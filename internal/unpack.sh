#!/usr/bin/env bash
# unpack.sh unpacks packages of another Debian suite, with the libraries they
# need, into a folder, without touching the system, makes their programs use
# those libraries, and prints the folder of the files. It uses the mirror that the
# machine is set up with.
# usage: unpack.sh FOLDER SUITE PACKAGE…
set -euo pipefail
suite=$2
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [ -e "$folder/complete" ]; then
  echo "$folder/files"
  exit
fi
rm -rf "$folder"/{lists,debs,files}
mkdir -p "$folder"/{lists/partial,debs,files}
mirror=$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/debian.sources)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$folder/sources.list"
suite_apt() {
  "$1" -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::Lists="$folder/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "${@:2}"
}
suite_apt apt-get -qq update
# All libraries that they depend on, and theirs; but not the compiler, which is
# as large as all the rest.
libraries=$(suite_apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
  "${@:3}" | grep -E '^(lib|zlib)' | grep -v -E 'llvm|perl|python|tcl' | sort -u)
(cd "$folder/debs" && suite_apt apt-get -qq download "${@:3}" patchelf $libraries)
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder/files"; done
# Programs start each other, so each must find its libraries by itself.
loader=$(readlink -f "$folder/files/usr/lib64/ld-linux-x86-64.so.2" 2>/dev/null || ls "$folder"/files/usr/lib/*/ld-linux-*.so.* | head -1)
path=$(dirname "$(ls "$folder"/files/usr/lib/*/libc.so.6)")
patch() { "$loader" --library-path "$path" "$folder/files/usr/bin/patchelf" "$@"; }
cd "$folder/files"
find usr -path '*/bin/*' -type f ! -name patchelf | while read -r program; do
  if patch --print-interpreter "$program" >/dev/null 2>&1; then # it is linked to libraries
    patch --set-interpreter "$loader" --force-rpath --set-rpath "$path" "$program"
  fi
done
rm -rf "$folder/lists" "$folder/debs"
touch "$folder/complete"
echo "$folder/files"
