BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE attempts (
	id VARCHAR NOT NULL, 
	job VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	live INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (job, number)
);
INSERT INTO "attempts" VALUES('p/done.1','p/done',1,0,'{"id":"p/done.1","job":"p/done","number":1,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["0"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0,"seen":"UP","at":3.0}],"state":"ENDED","cause":"NODE_LOST","started_at":5.0,"stopping_at":5.0,"ended_at":5.0}');
INSERT INTO "attempts" VALUES('p/done.2','p/done',2,0,'{"id":"p/done.2","job":"p/done","number":2,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["0"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0}],"state":"ENDED","cause":"COMPLETED","started_at":15.0,"stopping_at":15.0,"ended_at":15.0}');
INSERT INTO "attempts" VALUES('p/runs.1','p/runs',1,1,'{"id":"p/runs.1","job":"p/runs","number":1,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["1"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0,"seen":"UP","at":16.0}],"state":"RUNNING","started_at":16.0}');
CREATE TABLE holdings (
	node VARCHAR NOT NULL, 
	device VARCHAR NOT NULL, 
	attempt VARCHAR NOT NULL, 
	PRIMARY KEY (node, device)
);
INSERT INTO "holdings" VALUES('n0','1','p/runs.1');
CREATE TABLE jobs (
	n INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	project VARCHAR NOT NULL, 
	live INTEGER NOT NULL, 
	dialect VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	tries INTEGER NOT NULL, 
	hidden INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (n), 
	UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'p/done','p',0,'test','SUCCEEDED',2,0,'{"id":"p/done","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"state":"SUCCEEDED","tries":2,"started_at":5.0,"ended_at":15.0,"revision":7}');
INSERT INTO "jobs" VALUES(2,'p/runs','p',1,'test','ACTIVE',1,0,'{"id":"p/runs","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"state":"ACTIVE","tries":1,"started_at":16.0,"revision":3}');
INSERT INTO "jobs" VALUES(3,'p/waits','p',1,'test','QUEUED',0,0,'{"id":"p/waits","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"waits":{"code":"NO_ROOM","text":"no node has 2 free GPUs","action":"wait"}}');
INSERT INTO "jobs" VALUES(4,'p/cancelled','p',0,'test','CANCELLED',0,0,'{"id":"p/cancelled","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"wish":"CANCEL","wish_why":"The job was cancelled by ada.","state":"CANCELLED","ended_at":17.0,"revision":3}');
CREATE TABLE nodes (
	name VARCHAR NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "nodes" VALUES('n0','{"name":"n0","engine":"fake","zone":"z","accelerator":"T4","devices":["0","1","2","3"],"vcpus":64.0,"memory_gb":256.0}');
INSERT INTO "nodes" VALUES('n1','{"name":"n1","engine":"fake","zone":"z","accelerator":"T4","devices":["0","1"],"vcpus":64.0,"memory_gb":256.0}');
CREATE TABLE story (
	n INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at FLOAT NOT NULL, 
	"by" VARCHAR NOT NULL, 
	job VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	body TEXT NOT NULL
);
INSERT INTO "story" VALUES(1,1000000.0,'loop','','NodeSeen','{"node":{"name":"n0","engine":"fake","zone":"z","accelerator":"T4","devices":["0","1","2","3"],"vcpus":64.0,"memory_gb":256.0}}');
INSERT INTO "story" VALUES(2,1000000.0,'loop','','NodeSeen','{"node":{"name":"n1","engine":"fake","zone":"z","accelerator":"T4","devices":["0","1"],"vcpus":64.0,"memory_gb":256.0}}');
INSERT INTO "story" VALUES(3,1000000.0,'ada','p/done','Submit','{"job":{"id":"p/done","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0}}');
INSERT INTO "story" VALUES(4,1000000.0,'ada','p/runs','Submit','{"job":{"id":"p/runs","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0}}');
INSERT INTO "story" VALUES(5,1000000.0,'ada','p/waits','Submit','{"job":{"id":"p/waits","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0}}');
INSERT INTO "story" VALUES(6,1000000.0,'ada','p/cancelled','Submit','{"job":{"id":"p/cancelled","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0}}');
INSERT INTO "story" VALUES(7,1000000.0,'loop','p/done','Open','{"attempt":{"id":"p/done.1","job":"p/done","number":1,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["0"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0}]}}');
INSERT INTO "story" VALUES(8,1000000.0,'replica chief-0','p/done','Note','{"attempt":"p/done.1","role":"chief","index":0,"seen":"UP","at":3.0}');
INSERT INTO "story" VALUES(9,1000000.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.1","before":"PLACED","after":"STARTING","at":5.0}');
INSERT INTO "story" VALUES(10,1000000.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.1","before":"STARTING","after":"RUNNING","at":5.0}');
INSERT INTO "story" VALUES(11,1000000.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.1","before":"RUNNING","after":"STOPPING","at":5.0,"cause":"NODE_LOST"}');
INSERT INTO "story" VALUES(12,1000000.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.1","before":"STOPPING","after":"ENDED","at":5.0}');
INSERT INTO "story" VALUES(13,1000000.0,'loop','p/done','MoveJob','{"job":"p/done","before":"ACTIVE","after":"QUEUED","at":5.0}');
INSERT INTO "story" VALUES(14,1000010.0,'loop','p/done','Open','{"attempt":{"id":"p/done.2","job":"p/done","number":2,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["0"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0}]}}');
INSERT INTO "story" VALUES(15,1000010.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.2","before":"PLACED","after":"STARTING","at":15.0}');
INSERT INTO "story" VALUES(16,1000010.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.2","before":"STARTING","after":"RUNNING","at":15.0}');
INSERT INTO "story" VALUES(17,1000010.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.2","before":"RUNNING","after":"STOPPING","at":15.0,"cause":"COMPLETED"}');
INSERT INTO "story" VALUES(18,1000010.0,'loop','p/done','MoveAttempt','{"attempt":"p/done.2","before":"STOPPING","after":"ENDED","at":15.0}');
INSERT INTO "story" VALUES(19,1000010.0,'loop','p/done','MoveJob','{"job":"p/done","before":"ACTIVE","after":"SUCCEEDED","at":15.0}');
INSERT INTO "story" VALUES(20,1000010.0,'loop','p/runs','Open','{"attempt":{"id":"p/runs.1","job":"p/runs","number":1,"engine":"fake","placements":[{"role":"chief","index":0,"node":"n0","devices":["1"]}],"placed_at":1.0,"replicas":[{"role":"chief","index":0}]}}');
INSERT INTO "story" VALUES(21,1000010.0,'replica chief-0','p/runs','Note','{"attempt":"p/runs.1","role":"chief","index":0,"seen":"UP","at":16.0}');
INSERT INTO "story" VALUES(22,1000010.0,'loop','p/runs','MoveAttempt','{"attempt":"p/runs.1","before":"PLACED","after":"STARTING","at":16.0}');
INSERT INTO "story" VALUES(23,1000010.0,'loop','p/runs','MoveAttempt','{"attempt":"p/runs.1","before":"STARTING","after":"RUNNING","at":16.0}');
INSERT INTO "story" VALUES(24,1000010.0,'loop','p/waits','Explain','{"job":"p/waits","reason":{"code":"NO_ROOM","text":"no node has 2 free GPUs","action":"wait"}}');
INSERT INTO "story" VALUES(25,1000010.0,'ada','p/cancelled','Cancel','{"job":"p/cancelled","why":"The job was cancelled by ada.","at":17.0}');
INSERT INTO "story" VALUES(26,1000010.0,'loop','p/cancelled','MoveJob','{"job":"p/cancelled","before":"QUEUED","after":"CANCELLED","at":17.0}');
CREATE INDEX jobs_of_state ON jobs (project, state, n);
CREATE INDEX jobs_of_project ON jobs (project, n);
CREATE INDEX live_jobs ON jobs (live) WHERE live = 1;
CREATE INDEX jobs_of_dialect ON jobs (project, dialect, n);
CREATE UNIQUE INDEX one_live_attempt_per_job ON attempts (job) WHERE live = 1;
CREATE INDEX holdings_of_attempt ON holdings (attempt);
CREATE INDEX story_of_job ON story (job, n);
COMMIT;
