#!/usr/bin/env bash
# Brings what the tests in VS Code need: Chromium, code-server (VS Code served to a browser),
# playwright-core and the packaged extension. All of it lies below out/clients/vscode, but for a
# Chromium from apt where there is none; what is there already stays. PYTHON names a Python with pip,
# python3 otherwise.
set -euo pipefail
cd "$(dirname "$0")/../../.."

CODE_SERVER=4.100.3 # VS Code 1.100.3, the last one that runs on Node 20
PLACE="$PWD/out/clients/vscode"
TESTS="$PWD/tests/clients/vscode"
EXTENSION="$PWD/editor-clients/vscode"
VSIX="$EXTENSION/tabahead.vsix"
mkdir -p "$PLACE"

export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
export npm_config_loglevel=error
# Headers for native modules, where Node came with them; node-gyp would fetch them otherwise.
prefix="$(dirname "$(dirname "$(command -v node)")")"
if [ -e "$prefix/include/node/node.h" ]; then export npm_config_nodedir="$prefix"; fi

step() { printf -- '-- %s (%ss)\n' "$1" "$SECONDS"; }

# From apt; who may not install gets the same packages unpacked, and a script that starts them there.
bring_chromium() {
  local root="$PLACE/chromium-root"
  if [ -n "${CHROMIUM:-}" ] || [ -e "$PLACE/chromium" ]; then return; fi
  if command -v chromium >/dev/null; then return; fi
  step "Chromium"
  if ! command -v apt-get >/dev/null; then
    echo "There is no apt here: install Chromium, and name it in CHROMIUM." >&2
    exit 1
  fi
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null
    return
  fi
  rm -rf "$root"
  mkdir "$root"
  (
    cd "$root"
    apt-get -s install --no-install-recommends chromium | awk '$1 == "Inst" { print $2 }' |
      xargs apt-get download -qq
    for package in *.deb; do dpkg -x "$package" .; done
    rm -- *.deb
  )
  cat >"$PLACE/chromium" <<END
#!/bin/sh
export LD_LIBRARY_PATH="\$(echo '$root'/usr/lib/*-linux-gnu*)" FONTCONFIG_SYSROOT='$root'
exec '$root/usr/lib/chromium/chromium' "\$@"
END
  chmod +x "$PLACE/chromium"
}

# The package's own post-install script builds more than a window needs (kerberos, a terminal) and
# downloads programs: only the native modules that the start-up loads are built.
bring_code_server() {
  local target="$PLACE/code-server-$CODE_SERVER"
  if [ -e "$target" ]; then return; fi
  step "code-server $CODE_SERVER"
  rm -rf "$PLACE/unpacked"
  mkdir "$PLACE/unpacked"
  (
    cd "$PLACE/unpacked"
    tar xzf "$(npm pack --silent "code-server@$CODE_SERVER")"
    (
      cd package/lib/vscode
      npm install --omit=dev --ignore-scripts
      # Compiled for minutes of use: to optimise it takes longer than it saves.
      CXXFLAGS=-O0 npm rebuild @vscode/spdlog native-watchdog
      ln -s node_modules node_modules.asar # its modules are looked for under both names
    ) &
    cd package
    npm install --omit=dev --ignore-scripts
    npm rebuild argon2 --build-from-source
    wait $!
  ) >/dev/null
  mv "$PLACE/unpacked/package" "$target" # complete, or not there
  ln -sfn "$target" "$PLACE/code-server"
  rm -rf "$PLACE/unpacked"
}

bring_driver() {
  local target="$PLACE/driver"
  if [ -e "$target/node_modules/.package-lock.json" ] &&
    cmp -s "$TESTS/package-lock.json" "$target/package-lock.json"; then return; fi
  step "playwright-core"
  rm -rf "$target"
  mkdir "$target"
  cp "$TESTS/package.json" "$TESTS/package-lock.json" "$target"
  npm ci --prefix "$target" --ignore-scripts >/dev/null
}

# Made again where a source is newer.
package_extension() {
  local sources=("$EXTENSION" lsp_server models export pyproject.toml README.md)
  for made in node_modules dist server __pycache__; do sources+=(-name "$made" -prune -o); done
  sources+=(-type f)
  if [ -e "$VSIX" ] && [ -z "$(find "${sources[@]}" -newer "$VSIX" -print)" ]; then return; fi
  step "the extension"
  (cd "$EXTENSION" && npm ci && npm run package) >/dev/null
}

install_extension() {
  local installed="$PLACE/extensions"
  if [ "$installed" -nt "$VSIX" ]; then return; fi
  step "its installation"
  rm -rf "$installed"
  XDG_CONFIG_HOME="$PLACE/install" node "$PLACE/code-server/out/node/entry.js" \
    --user-data-dir "$PLACE/install" --extensions-dir "$installed" \
    --install-extension "$VSIX" >/dev/null
  touch "$installed"
}

# Most of the time goes into compiling and waiting for registries: side by side.
bring_code_server &
code_server=$!
bring_chromium
bring_driver
package_extension
wait "$code_server"
install_extension
step "ready"
