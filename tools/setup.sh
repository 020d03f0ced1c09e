#!/usr/bin/env bash
# Installs what building and testing tape8 needs, and only what is missing. Safe to repeat.
set -euo pipefail

# Package of Debian and Ubuntu, and the command or header by which it is known to be there.
needs=(
  "g++ g++"
  "cmake cmake"
  "ninja-build ninja"
  "libfmt-dev fmt/format.h"
  "libspdlog-dev spdlog/spdlog.h"
  "doctest-dev doctest/doctest.h"
  "libcli11-dev CLI/CLI.hpp"
  "nlohmann-json3-dev nlohmann/json.hpp"
  "zlib1g-dev zlib.h"
)

is_there() {
  if [[ $1 != *.h* ]]; then
    command -v "$1" >/dev/null
    return
  fi
  local folder
  for folder in /usr/include /usr/local/include; do
    [[ -e $folder/$1 ]] && return
  done
  return 1
}

missing=()
for need in "${needs[@]}"; do
  read -r package probe <<<"$need"
  is_there "$probe" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup: all packages are there"
  exit 0
fi

echo "setup: missing: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "setup: there is no apt-get here: install what these Debian packages hold, then run this again" >&2
  echo "setup: README.md has the names for other systems" >&2
  exit 1
fi
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing them with apt-get"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}"
echo "setup: done"
