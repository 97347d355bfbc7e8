from stoker import checkpoint as checkpoint
from stoker.client.answers import Artifact as Artifact
from stoker.client.answers import Diagnosis as Diagnosis
from stoker.client.answers import Explanation as Explanation
from stoker.client.answers import LogLine as LogLine
from stoker.client.answers import Metrics as Metrics
from stoker.client.connection import connect as connect
from stoker.client.job_failed import JobFailed as JobFailed
from stoker.client.job_options import JobOptions as JobOptions
from stoker.client.jobs import Job as Job
from stoker.client.jobs import get as get
from stoker.client.jobs import jobs as jobs
from stoker.client.submit import submit as submit
from stoker.client.uploads import Progress as Progress
from stoker.core.errors import StokerError as StokerError
from stoker.frameworks.metrics.meter import reading as reading
from stoker.frameworks.metrics.meter import report as report
from stoker.frameworks.metrics.meter import step as step

__version__: str
