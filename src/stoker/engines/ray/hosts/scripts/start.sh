set -eu
umask 077
folder="$HOME/.local/share/stoker-node"
cd "$folder"
mkdir -p work
printf '%s' "$site" >owner
printf '%s' "$token" >token

temporary="/tmp/stoker-node-$(id -u)"
cat >run.part <<END
#!/bin/sh
# Starts Ray on this machine, as a node of a Stoker. Written by: stoker nodes add
cd "$folder" || exit 1
[ -e log ] && [ "\$(wc -c <log)" -gt 10000000 ] && mv log log.old
exec >>log 2>&1
echo "--- \$(date)"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$folder/token" RAY_USAGE_STATS_ENABLED=0
export RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor STOKER_NODE_FOLDER="$folder/work"
$health
mkdir -p "$temporary" && chmod 700 "$temporary" && [ -O "$temporary" ] && [ ! -h "$temporary" ] || {
  echo "$temporary is another user's: have it removed, for Ray's sockets and logs are to lie there"
  exit 1
}
echo \$\$ >run.pid
exec env/$digest/bin/python -m ray.scripts.scripts start --address=$head --node-ip-address=$address $gpus \\
  --labels='$labels' --temp-dir="$temporary/ray" --disable-usage-stats --block
END
cat >keep.part <<END
#!/bin/sh
# Starts Ray again whenever it has ended, as systemd does where there is one.
cd "$folder" || exit 1
exec 9>keep.lock
flock -n 9 || exit 0
while [ -e wanted ]; do ./run 9>&-; sleep 2; done
END
chmod 700 run.part keep.part
mv run.part run
mv keep.part keep
touch wanted

XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"
export XDG_RUNTIME_DIR
if [ -d /run/systemd/system ] && systemctl --user show-environment >/dev/null 2>&1; then
  mkdir -p "$HOME/.config/systemd/user"
  cat >"$HOME/.config/systemd/user/$unit" <<END
[Unit]
Description=A node of Stoker
StartLimitIntervalSec=0

[Service]
ExecStart="$folder/run"
Restart=always
RestartSec=2
TimeoutStopSec=60
Delegate=yes

[Install]
WantedBy=default.target
END
  systemctl --user daemon-reload
  systemctl --user enable --quiet "$unit"
  systemctl --user restart "$unit"
  if loginctl enable-linger 2>/dev/null; then echo "systemd"; else echo "systemd no-linger"; fi
else
  if command -v flock >/dev/null; then :; else sed -i '/flock/d' keep; fi
  pid="$(cat run.pid 2>/dev/null || true)"
  if [ -n "$pid" ] && grep -qs ray "/proc/$pid/cmdline"; then kill "$pid" 2>/dev/null || true; fi
  setsid ./keep </dev/null >/dev/null 2>&1 &
  if crontab -l 2>/dev/null | grep -qF "$folder/keep"; then echo "keep cron"
  elif command -v crontab >/dev/null && { crontab -l 2>/dev/null; echo "@reboot $folder/keep"; } | crontab - 2>/dev/null; then
    echo "keep cron"
  else echo "keep"; fi
fi
