#!/usr/bin/env bash
# Installs what Penstock needs: the Debian packages of packages.txt (with --tests those of
# packages-test.txt as well, as far as the distribution has them) and, in .venv, the Python packages
# of requirements.txt (with --tests those of requirements-test.txt). Does nothing where everything
# is there (well under a second). Safe to call from two terminals at once: the second waits. Run it,
# or call tools/build, tools/test or tools/quickstart, which begin with it. Ends with 2 where
# something is missing that it may not install.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
venv=$root/.venv

say() { printf '%s\n' "$*" >&2; }

# The packages of a list that are not installed.
missing_packages() {
  local package
  while read -r package; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      printf '%s\n' "$package"
  done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1" | awk '{print $1}')
}

# Those that the distribution has; says which it has not.
available() {
  local package
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      printf '%s\n' "$package"
    else
      say "setup: this distribution has no $package; the tests that need it are skipped"
    fi
  done
}

# The words before a command that makes it run as root; fails where nobody can.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    echo env
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    echo sudo
  else
    return 1
  fi
}

# What the distribution does not have is asked for once only.
list=$root/tools/packages-test.txt
asked=$venv/.penstock-packages
asked_before() { cmp -s "$list" "$asked"; }

install_packages() {
  local missing prefix optional=()
  if ! command -v dpkg-query >/dev/null; then
    say "setup: this is no Debian or Ubuntu; install what tools/packages.txt lists, and then run"
    say "  PENSTOCK_SKIP_PACKAGES=1 $0"
    exit 2
  fi
  mapfile -t missing < <(missing_packages "$root/tools/packages.txt")
  [ -z "$tests" ] || asked_before || mapfile -t optional < <(missing_packages "$list")
  [ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || return 0
  if ! prefix=$(as_root); then
    say "setup: missing packages: ${missing[*]} ${optional[*]}"
    say "Only root can install them. Ask for this:"
    say "  apt-get update && apt-get install --no-install-recommends ${missing[*]} ${optional[*]}"
    [ "${#missing[@]}" -gt 0 ] || { say "The tests that need them are skipped."; return 0; }
    exit 2
  fi
  # shellcheck disable=SC2086  # the prefix is one plain word
  $prefix env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 update || true
  mapfile -t optional < <(available "${optional[@]}")
  missing+=("${optional[@]}")
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "setup: installing ${missing[*]}"
  # shellcheck disable=SC2086
  $prefix env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 install \
      --no-install-recommends "${missing[@]}" >&2 && return 0
  say "setup: apt-get could not install ${missing[*]}; its message is above"
  exit 1
}

# The system's Python, so that .venv does not depend on a version manager; any other where there is
# none.
python3_path() {
  if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi
}

# The Python packages of a list (second its size, for people), by pip with further options; not
# where they were installed before.
install_python_packages() {
  local requirements=$1 size=$2 stamp=$venv/.penstock-${1%.txt} wanted
  shift 2
  wanted=$(sha256sum <"$root/tools/$requirements")
  if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    return 0
  fi
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "setup: creating .venv"
    "$(python3_path)" -m venv --clear "$venv"
  fi
  say "setup: installing the Python packages of tools/$requirements ($size)"
  if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 "$@" \
      -r "$root/tools/$requirements" >&2; then
    say "setup: pip could not install tools/$requirements; its message is above"
    exit 1
  fi
  printf '%s\n' "$wanted" >"$stamp.new"
  mv "$stamp.new" "$stamp"
}

tests=
case ${1:-} in
  --tests) tests=yes ;;
  '') ;;
  *) say "setup: unknown option '$1'; there is only --tests"; exit 2 ;;
esac

main() {
  exec 9<"$root/tools/requirements.txt"
  flock 9
  [ -n "${PENSTOCK_SKIP_PACKAGES:-}" ] || install_packages
  install_python_packages requirements.txt \
    "LibTorch is some 3 GB, the first time takes minutes"
  # deepspeed looks for torch and CUDA when it is installed: it must see .venv, and no CUDA.
  [ -z "$tests" ] || DS_ACCELERATOR=cpu DS_BUILD_OPS=0 TORCH_CUDA_ARCH_LIST=8.0 \
    install_python_packages requirements-test.txt "30 MB" --quiet --no-deps --no-build-isolation
  [ -z "$tests" ] || cp "$list" "$asked"
}

main
