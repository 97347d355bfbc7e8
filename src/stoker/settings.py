"""The table of settings: a row each. The parser, `stoker config` and docs/configuration.md are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.setting_types import Parser
from stoker.setting_types import count_or_auto as _count_or_auto
from stoker.setting_types import database as _database
from stoker.setting_types import days as _days
from stoker.setting_types import flag as _flag
from stoker.setting_types import gigabytes as _gigabytes
from stoker.setting_types import lease as _lease
from stoker.setting_types import limit as _limit
from stoker.setting_types import mail_address as _mail_address
from stoker.setting_types import mail_server as _mail_server
from stoker.setting_types import megabytes as _megabytes
from stoker.setting_types import networks as _networks
from stoker.setting_types import one_of as _one_of
from stoker.setting_types import password as _password
from stoker.setting_types import port as _port
from stoker.setting_types import seconds as _seconds
from stoker.setting_types import table as _table
from stoker.setting_types import text as _text
from stoker.setting_types import texts as _list
from stoker.setting_types import users as _users


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    parse: Parser
    default: Any
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("home", _text, "", "Everything that a server keeps lies here. Default: the user's data folder."),
    Setting("url", _text, "", "The server to talk to. Default: the one of this home, started when it is needed."),
    Setting("token", _text, "", "The token to show to the server. Default: the one in this home."),
    Setting("project", _text, "local", "The project of jobs, where a command does not name one."),
    Setting("region", _text, "us-central1", "The region of jobs, where neither a flag nor a file names one."),
    Setting("host", _text, "127.0.0.1", "The address that the server listens on."),
    Setting("port", _port, 7077, "The port that the server listens on; 0 takes any that is free."),
    Setting("auth", _flag, True, "Whether the server asks for a token. Without it, only on loopback."),
    Setting(
        "engine",
        _one_of("local", "ray", "local,ray"),
        "local",
        "Where replicas run: `local`, this machine; `ray`, the cluster at `address` (docs/clusters.md); or both: `local,ray`.",
    ),
    Setting("address", _text, "", "The address of Ray's head: host:port."),
    Setting(
        "lease_seconds",
        _lease,
        30.0,
        "How long a replica on a machine of a cluster runs on that reaches neither the server nor the cluster's head; a third"
        " longer, and its job is started elsewhere.",
    ),
    Setting(
        "database",
        _database,
        "",
        "Where the state is kept: a URL such as `postgresql://user:password@host/stoker` (docs/reliability.md). Default:"
        " SQLite, in the file `stoker.db` in the home.",
    ),
    Setting(
        "requests_per_second",
        _limit,
        200,
        "How often a user with a token of their own may ask, twice that at once; 0: no limit. There is none for admins.",
    ),
    Setting(
        "requests_at_once",
        _limit,
        100,
        "How many requests of such a user may be under way at the same time, streams and downloads among them, and four times as"
        " many from one address; 0: no limit.",
    ),
    Setting(
        "queued_jobs_per_user", _limit, 100_000, "How many jobs of one user may wait at the same time; 0: no limit."
    ),
    Setting(
        "reserve_mb",
        _megabytes,
        64.0,
        "While the disk of the home has less free, in megabytes, new jobs and uploads are refused, so that those that run"
        " can go on.",
    ),
    Setting("hold", _flag, False, "Accept jobs, but start none (an admin's pause)."),
    Setting("fake", _text, "", "Virtual nodes to declare, such as 10x4xT4,3xn1-highmem-8."),
    Setting(
        "site",
        _text,
        "",
        "The site file: queues, quotas, who goes first (docs/site.md). A relative path starts at the home. Default:"
        " `site.toml` in the home, if it is there.",
    ),
    Setting(
        "policy",
        _text,
        "priority",
        "The order of the queue: a policy (docs/site.md). The site file's goes over the default, a setting over both.",
    ),
    Setting(
        "placer",
        _text,
        "best-fit",
        "How a gang is placed on nodes: a placer (docs/site.md). As with `policy`, a setting goes over the site file.",
    ),
    Setting(
        "local_replicas",
        _limit,
        0,
        "Most replicas that run on this machine at a time, those of its declared nodes and of rehearsals included"
        " (docs/scheduling.md); 0: as many as its memory, cores, process ids and files allow.",
    ),
    Setting("grace_seconds", _seconds, 30.0, "Between SIGTERM and SIGKILL, when a replica is stopped."),
    Setting(
        "isolation",
        _one_of("auto", "0", "1", "2"),
        "auto",
        "How far programs are kept apart: level 0, 1 or 2 (docs/security.md); `auto`: 1 where bubblewrap works, else 0.",
    ),
    Setting("job_folders", _list, [], "Folders that every program may write to, at isolation levels 1 and 2."),
    Setting("inherit_env", _list, [], "Variables of the server that reach programs at isolation levels 1 and 2."),
    Setting("job_users", _users, "20000-29999", "The numbers of the users that jobs run as, at isolation level 2."),
    Setting(
        "job_processes",
        _count_or_auto,
        "auto",
        "Most processes and threads of a replica, where cgroups can hold it to that; `auto`: 256 for each core, 512 to"
        " 10,000, and fewer where memory or process ids are few; 0: no limit.",
    ),
    Setting(
        "job_memory_gb", _gigabytes, 0.0, "Most memory of a replica, where cgroups can hold it to that; 0: no limit."
    ),
    Setting(
        "hold_machines",
        _one_of("auto", "on", "off"),
        "auto",
        "Hold programs to the vCPUs and the memory of their machines, where cgroups can; `auto`: at isolation level 2. What is"
        " asked for by --memory holds always, and vCPUs weigh where there are too few.",
    ),
    Setting(
        "job_tmp_gb",
        _gigabytes,
        0.0,
        "Most that each of `/tmp`, `/var/tmp`, `/run` and `/dev/shm` of a replica in a sandbox holds, in memory; 0: half of the"
        " machine's.",
    ),
    Setting(
        "log_mb",
        _megabytes,
        500.0,
        "Most output that is kept of a replica, in megabytes: its first part, and the last (docs/running.md#logs); 0: no limit.",
    ),
    Setting(
        "log_mb_per_second",
        _megabytes,
        4.0,
        "How much of each stream of a replica is kept a second, in megabytes, four times that at once; 0: no limit.",
    ),
    Setting(
        "job_log_mb",
        _megabytes,
        2000.0,
        "Most output that is kept of a job, in megabytes: of all its replicas and attempts; 0: no limit.",
    ),
    Setting(
        "job_disk_gb",
        _gigabytes,
        0.0,
        "Most that a replica may hold in its working directory; one that holds more is ended; 0: no limit.",
    ),
    Setting(
        "project_disk_gb",
        _gigabytes,
        0.0,
        "Most that the jobs of a project may leave in the home, as logs and in working directories, before new ones are"
        " refused; 0: no limit.",
    ),
    Setting("keep_runs_days", _days, 14.0, "How long the folder of an attempt is kept when it has ended."),
    Setting(
        "hang_seconds",
        _seconds,
        3600.0,
        "A job of which no replica prints, beats or makes progress for so long counts as hung (docs/running.md); 0: never.",
    ),
    Setting(
        "sample_seconds",
        _seconds,
        1.0,
        "From one sample of this machine and its GPUs to the next (docs/monitoring.md); 0: nothing is sampled.",
    ),
    Setting(
        "idle_seconds",
        _seconds,
        1800.0,
        "A job whose GPUs, steps and processes did nothing for so long is idle (docs/idle.md); 0: nobody looks.",
    ),
    Setting(
        "idle_stop_seconds",
        _seconds,
        0.0,
        "So long after it was found idle a job is stopped, unless its user keeps it (stoker keep); 0: never.",
    ),
    Setting(
        "metrics_hpc_job",
        _flag,
        False,
        "Give the series of DCGM at /metrics a label `hpc_job`, as dcgm-exporter does: each job makes series of its own.",
    ),
    Setting("samples_fine_days", _days, 14.0, "How long samples are kept in points of 10 seconds."),
    Setting("samples_coarse_days", _days, 365.0, "How long samples are kept in points of a minute."),
    Setting("samples_gb", _gigabytes, 5.0, "Most that samples take of the disk; then the oldest go."),
    Setting(
        "alerts_networks",
        _networks,
        [],
        "Networks that alerts may be delivered to although they are not public, such as `10.20.0.0/16` (docs/alerts.md).",
    ),
    Setting("alerts_from", _mail_address, "", "The address that alerts by e-mail come from."),
    Setting(
        "smtp",
        _mail_server,
        "",
        "The mail server for alerts: `smtp://[USER@]HOST[:PORT]`, with STARTTLS where it offers that, or `smtps://…`.",
    ),
    Setting("smtp_password", _password, "", "The password for the user of `smtp`; never shown."),
    Setting(
        "shared_folders",
        _list,
        [],
        "Folders that all machines see under the same path, such as a mount of NFS: programs use them as they are. Of what lies"
        " elsewhere in a bucket or a job directory, machines of a cluster have a copy that is kept in step (docs/storage.md).",
    ),
    Setting("buckets", _table, {}, "Buckets that are folders of this machine: name → folder."),
    Setting(
        "unmapped_buckets",
        _one_of("auto", "here", "cloud"),
        "auto",
        "Where other buckets are: `here` below home, or in the `cloud`; `auto`: here unless there are cloud credentials.",
    ),
    Setting(
        "runtimes",
        _table,
        {},
        "Python interpreters for runtimeVersion: version → path. Others are made where they can be (docs/running.md).",
    ),
    Setting(
        "images",
        _table,
        {},
        "Container images that an environment of this machine stands in for: image, or a pattern like `gcr.io/me/*` →"
        " interpreter and entry point, such as"
        " `/opt/env/bin/python -m trainer.task`.",
    ),
    Setting(
        "strict_runtimes",
        _flag,
        False,
        "Refuse a runtimeVersion that can neither be had from `runtimes` nor be made here.",
    ),
)

SECRETS = frozenset({"token", "smtp_password"})
"""Settings that are never shown: a screen is looked at, and a log is kept."""

BY_NAME = {setting.name: setting for setting in SETTINGS}
