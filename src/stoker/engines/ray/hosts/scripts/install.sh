set -u
umask 077
folder="$HOME/.local/share/stoker-node"
uv="$folder/bin/uv"
environment="$folder/env/$digest"
[ -e "$environment/whole" ] && exit 0
rm -rf "$environment"
mkdir -p "$folder/env"

find_python() { found="$("$uv" python find --no-python-downloads --system "$1" 2>/dev/null)"; }
bring_python() { "$uv" python install --quiet "$1" 2>"$folder/python.err" && find_python "$1"; }
if ! find_python "$python" && ! find_python "$minor" && ! bring_python "$python" && ! bring_python "$minor"; then
  echo "no Python $minor is there, and none could be had: $(tail -n 1 "$folder/python.err")" >&2
  exit 3
fi

"$uv" venv --quiet --python "$found" "$environment" || exit 4
printf '%s\n' "$requirements" >"$environment/requirements.txt"
install() { "$uv" pip install --quiet --python "$environment/bin/python" --requirement "$environment/requirements.txt" "$@"; }
# Versions are exact, so what the cache has is what an index would give.
if ! install --offline 2>"$folder/offline.err" && ! install 2>"$folder/install.err"; then
  tail -n 12 "$folder/install.err" >&2
  rm -rf "$environment"
  exit 5
fi
rm -f "$folder"/*.err
touch "$environment/whole"
