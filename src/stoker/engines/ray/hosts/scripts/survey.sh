# What this machine is like, as name=value.
say() { printf '%s=%s\n' "$1" "$2"; }
folder="$HOME/.local/share/stoker-node"
say system "$(uname -s)"
say machine "$(uname -m)"
say user "$(id -un)"
say uid "$(id -u)"
say home "$HOME"
say connection "$SSH_CONNECTION"
say now "$(date +%s.%N)"
near="$folder"; while [ ! -d "$near" ]; do near="$(dirname "$near")"; done
say disk_kb "$(df -Pk "$near" | awk 'NR==2 {print $4}')"
say tmp_kb "$(df -Pk /tmp | awk 'NR==2 {print $4}')"
say cpus "$(getconf _NPROCESSORS_ONLN)"
say memory_kb "$(awk '/^MemTotal/ {print $2}' /proc/meminfo)"
say bubblewrap "$(command -v bwrap)"
say tools "$(for tool in tar setsid; do command -v $tool >/dev/null || printf '%s ' $tool; done)"
if command -v nvidia-smi >/dev/null 2>&1; then
  say driver "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1 | head -n 1)"
  say gpus "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c | sed 's/^ *//' | tr '\n' ';')"
fi
XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; export XDG_RUNTIME_DIR
if [ -d /run/systemd/system ] && systemctl --user show-environment >/dev/null 2>&1; then say systemd yes; fi
[ -e "$folder/owner" ] && say owner "$(cat "$folder/owner")"
[ -e "$folder/wanted" ] && say wanted yes
[ -x "$folder/bin/uv" ] && say uv "$("$folder/bin/uv" --version 2>/dev/null | awk '{print $2}')"
reach() {
  if command -v bash >/dev/null; then timeout 5 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null && echo yes || echo no
  elif command -v python3 >/dev/null; then
    timeout 5 python3 -c "import socket, sys; socket.create_connection(sys.argv[1:], 5)" "$1" "$2" 2>/dev/null && echo yes || echo no
  fi
}
