"""A few hand-made rows of every format: how its file is called, and what is in it. All are in order and without fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A small file of one format."""

    file: str
    text: str
    jobs: int  # how many of its rows are jobs to replay


PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-09-04 10:30:41,2240.0,8,17920.0,7f04ca
2017-10-02 00:00:00,60.0,1,60.0,6214e9
2017-10-02 23:59:59,3600.5,16,57608.0,7f04ca
2017-10-03 00:00:00,10.0,0,0.0,7f04ca
"""

PHILLY_LOG = """\
[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1_1", "user": "ce2f4c",
  "submitted_time": "2017-10-07 01:11:39",
  "attempts": [
   {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09",
    "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]},
   {"start_time": "2017-10-07 01:14:00", "end_time": "2017-10-07 02:14:00",
    "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu0", "gpu1"]}]}]},
 {"status": "Killed", "vc": "ee9e8c", "jobid": "application_1_2", "user": "u",
  "submitted_time": "2017-10-07 01:11:40", "attempts": []},
 {"status": "Killed", "vc": "ee9e8c", "jobid": "application_1_3", "user": "u",
  "submitted_time": "2017-10-07 01:11:40",
  "attempts": [{"start_time": "2017-10-07 03:00:00", "end_time": null, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
 {"status": "Failed", "vc": "b", "jobid": "application_1_4", "user": "u",
  "submitted_time": "2017-10-07 01:11:41",
  "attempts": [{"start_time": "2017-10-07 03:00:00", "end_time": "2017-10-07 03:00:10",
                "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}]
"""

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Failed,427061,12902960,427070
openb-pod-0002,8000,30517,2,1000,,BE,Pending,427061,427161,
openb-pod-0003,4000,2048,0,0,,Burstable,Succeeded,500000,500000,500000
"""

PAI = """\
a1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.25,50.0,T4
a1,ps,1.0,Terminated,990.0,1610.0,400.0,10.0,,CPU
b2,tensorflow,1.0,Failed,2000.0,2100.0,600.0,29.25,100.0,MISC
c3,tensorflow,1.0,Running,2000.0,,600.0,29.25,100.0,P100
d4,xtensorflow,,Waiting,,,600.0,29.25,100.0,P100
"""

PAI_SIMULATOR = """\
job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user
7,2,0,6.0,0.5,T4,600.0,58540f191766
12,1,30,4.0,1.0,V100,0.0,58540f191766
101,1,30,4.0,0.0,CPU,90.0,9a
"""

SPOT = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
239255,13,A10,20,1,1,0,2764799,HP
437260,57,A100-SXM4-80GB,15,1,16,9589.0,41060,Spot
437261,57,A100-SXM4-80GB,15,8,2,9663.0,71718.0,Spot
"""

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,\
resource_time_0,resource_time_1,resource_time_2,priority
0,1,0,5853661,dqn,128,2868294000,46122000,490,446,8,0,1
1,8,201694000,8787693,dqn,128,4472936000,201694000,509,435,8,0.5,0
2,4,201694000,1000,vgg16,64,500000,10,500,435,8,0.5,0
"""

GAVEL = """\
LM (batch size 10)\tpython3 main.py --data %s/wikitext2\tlanguage_modeling\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t0
ResNet-18 (batch size 32)\tpython3 main.py\timage_classification/cifar10\t--num_steps\t1\t143450\t2\tstatic\t1\t1.5\t3338\t55
LM (batch size 20)\tpython3 main.py --data %s/wikitext2\tlanguage_modeling\t--steps\t1\t17\t4\tgns\t1\t-1.000000\t100\t55
"""

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vchbv,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 18:46:36,249,60
1425513,uzqls,vcpDC,0,4,1,CANCELLED,2020-06-09 18:41:28,None,2020-06-09 18:41:30,0,0
1425514,uzqls,vcpDC,0,4,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:29,2020-06-09 18:41:39,10,1
1425515,uzqls,vcpDC,1,4,1,FAILED,2020-06-09 18:41:28,2020-06-09 18:41:29,2020-06-09 18:41:29,0,1
"""

ACME = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,\
fail_time,stop_time,duration,queue,gpu_time
dlc1,uf794,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc2,uf794,1,8,120,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,\
2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,656.0
dlc3,uf1,1,8,120,1000,100.0,Other,RUNNING,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,,,,,12.0,
"""

CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc_103959,4,12198,6910,resnet101,211,8,282,10,0,strict
9,vc_7f04ca,1,19772,8897,resnet101,31,6,88-120,10,0,strict
10,vc_7f04ca,0,19772,8897,resnet101,31,6,88,10,0,strict
11,vc_7f04ca,2,19772,8897,vgg16,31,6,88,10,1,best
"""

SLURM = """\
JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|ReqTRES|AllocTRES|NCPUS|NNodes|Priority
12|train-7|ann|lab|gpu|COMPLETED|2025-01-01T08:00:00|2025-01-01T08:00:30|2025-01-02T09:00:30|1-01:00:00|\
billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|8|1|4294
12.batch|batch||lab||COMPLETED|2025-01-01T08:00:30|2025-01-01T08:00:30|2025-01-02T09:00:30|1-01:00:00||cpu=8,mem=64G,node=1|8|1|
12.0|python||lab||COMPLETED|2025-01-01T08:00:31|2025-01-01T08:00:31|2025-01-02T09:00:30|1-00:59:59||cpu=8,mem=64G,node=1|8|1|
13_3|sweep|bob|lab|gpu|TIMEOUT|2025-01-01T08:10:00|2025-01-01T09:00:00|2025-01-01T09:10:00|00:10:00|\
cpu=4,gres/gpu=1,mem=16000M,node=1|cpu=4,gres/gpu:v100=1,mem=16000M,node=1|4|1|10
14|eval|bob|lab|gpu|CANCELLED by 1000|2025-01-01T08:20:00|None|2025-01-01T08:30:00|00:00:00|cpu=4,gres/gpu=1,node=1||4|1|10
15|prep|bob|lab|cpu|FAILED|2025-01-01T08:21:00|2025-01-01T08:21:05|2025-01-01T08:22:05|00:01:00|cpu=4,mem=1T,node=2|cpu=4,mem=1T,node=2|4|2|9
16|long|bob|lab|gpu|RUNNING|2025-01-01T08:22:00|2025-01-01T08:30:00|Unknown|2-00:00:00|cpu=4,node=1|cpu=4,node=1|4|1|9
17|long|bob|lab|gpu|PENDING|2025-01-01T08:22:00|Unknown|Unknown|00:00:00|cpu=4,node=1||4|1|9
"""

SAMPLES: Mapping[str, Sample] = {
    "philly": Sample("philly.csv", PHILLY, 3),
    "philly-log": Sample("cluster_job_log", PHILLY_LOG, 2),
    "openb": Sample("openb_pod_list_default.csv", OPENB, 4),
    "pai": Sample("pai_task_table.csv", PAI, 2),
    "pai-simulator": Sample("pai_job_no_estimate_100K.csv", PAI_SIMULATOR, 3),
    "spot": Sample("job_info_df.csv", SPOT, 3),
    "muri": Sample("trace1.csv", MURI, 3),
    "gavel": Sample("120_jobs.trace", GAVEL, 3),
    "helios": Sample("cluster_log.csv", HELIOS, 3),
    "acme": Sample("trace_kalos.csv", ACME, 2),
    "chronus": Sample("trace_job_Philly_SLO.csv", CHRONUS, 3),
    "slurm": Sample("sacct.txt", SLURM, 3),
}
