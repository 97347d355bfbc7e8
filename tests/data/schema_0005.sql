BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "alembic_version" VALUES('0005');
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
	n INTEGER NOT NULL, 
	node VARCHAR NOT NULL, 
	device VARCHAR NOT NULL, 
	attempt VARCHAR NOT NULL, 
	milli INTEGER NOT NULL, 
	PRIMARY KEY (n)
);
INSERT INTO "holdings" VALUES(1,'n0','1','p/runs.1',1000);
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
	ended_at FLOAT, 
	PRIMARY KEY (n), 
	UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'p/done','p',0,'test','SUCCEEDED',2,0,'{"id":"p/done","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"state":"SUCCEEDED","tries":2,"requeued_at":5.0,"started_at":5.0,"ended_at":15.0,"revision":7}',15.0);
INSERT INTO "jobs" VALUES(2,'p/runs','p',1,'test','ACTIVE',1,0,'{"id":"p/runs","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"state":"ACTIVE","tries":1,"started_at":16.0,"revision":3}',NULL);
INSERT INTO "jobs" VALUES(3,'p/waits','p',1,'test','QUEUED',0,0,'{"id":"p/waits","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"waits":{"code":"NO_ROOM","text":"no node has 2 free GPUs","action":"wait"}}',NULL);
INSERT INTO "jobs" VALUES(4,'p/cancelled','p',0,'test','CANCELLED',0,0,'{"id":"p/cancelled","spec":{"program":{"command":["true"]},"groups":[{"role":"chief","count":1,"machine":{"memory_gb":1.0,"accelerator":"T4","accelerator_milli":2000}}],"region":"us-central1"},"request":{"dialect":"test","body":"{}"},"owner":"u","submitted_at":1000000.0,"wish":"CANCEL","wish_why":"The job was cancelled by ada.","state":"CANCELLED","ended_at":17.0,"revision":3}',17.0);
CREATE TABLE lead (
	n INTEGER NOT NULL, 
	term INTEGER NOT NULL, 
	who VARCHAR NOT NULL, 
	since FLOAT NOT NULL, 
	PRIMARY KEY (n)
);
CREATE TABLE node_records (
	node VARCHAR NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (node)
);
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
CREATE INDEX jobs_of_dialect ON jobs (project, dialect, n);
CREATE INDEX jobs_of_project ON jobs (project, n);
CREATE INDEX jobs_of_state ON jobs (project, state, n);
CREATE INDEX live_jobs ON jobs (live) WHERE live = 1;
CREATE INDEX ended_jobs ON jobs (ended_at);
CREATE UNIQUE INDEX one_live_attempt_per_job ON attempts (job) WHERE live = 1;
CREATE INDEX holdings_of_device ON holdings (node, device);
CREATE INDEX holdings_of_attempt ON holdings (attempt);
CREATE TRIGGER a_device_is_held_once BEFORE INSERT ON holdings WHEN NEW.milli + (SELECT coalesce(sum(milli), 0) FROM holdings WHERE node = NEW.node AND device = NEW.device) > 1000 BEGIN SELECT RAISE(ABORT, 'the device is held'); END;
CREATE INDEX story_of_job ON story (job, n);
CREATE TRIGGER holdings_stay_as_they_are BEFORE UPDATE ON holdings WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'what is held is released, never changed'); END;
CREATE TRIGGER a_job_begins_in_a_state BEFORE INSERT ON jobs WHEN NEW.state NOT IN ('QUEUED', 'ACTIVE', 'SUCCEEDED', 'FAILED', 'CANCELLED') OR NEW.live <> CASE WHEN NEW.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN 0 ELSE 1 END BEGIN SELECT RAISE(ABORT, 'no such state of a job'); END;
CREATE TRIGGER a_job_is_in_a_state BEFORE UPDATE ON jobs WHEN NEW.state NOT IN ('QUEUED', 'ACTIVE', 'SUCCEEDED', 'FAILED', 'CANCELLED') OR NEW.live <> CASE WHEN NEW.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN 0 ELSE 1 END BEGIN SELECT RAISE(ABORT, 'no such state of a job'); END;
CREATE TRIGGER an_ended_job_stays_so BEFORE UPDATE ON jobs WHEN OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND (NEW.state <> OLD.state OR NEW.tries <> OLD.tries OR coalesce(NEW.ended_at, 0) <> coalesce(OLD.ended_at, 0)) BEGIN SELECT RAISE(ABORT, 'the job has ended'); END;
CREATE TRIGGER a_job_stays_itself BEFORE UPDATE ON jobs WHEN NEW.n <> OLD.n OR NEW.id <> OLD.id OR NEW.project <> OLD.project OR NEW.tries < OLD.tries BEGIN SELECT RAISE(ABORT, 'the job would become another one'); END;
CREATE TRIGGER a_job_stays BEFORE DELETE ON jobs WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'jobs are hidden, never deleted'); END;
CREATE TRIGGER a_job_outlives_its_attempts BEFORE UPDATE ON jobs WHEN NEW.live = 0 AND EXISTS (SELECT 1 FROM attempts WHERE job = NEW.id AND live = 1) BEGIN SELECT RAISE(ABORT, 'an attempt of the job lives'); END;
CREATE TRIGGER an_attempt_is_of_a_live_job BEFORE INSERT ON attempts WHEN NEW.live <> 1 OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = NEW.job AND live = 1) BEGIN SELECT RAISE(ABORT, 'there is no live job for the attempt'); END;
CREATE TRIGGER an_ended_attempt_stays_so BEFORE UPDATE ON attempts WHEN NEW.live NOT IN (0, 1) OR NEW.live > OLD.live OR NEW.id <> OLD.id OR NEW.job <> OLD.job OR NEW.number <> OLD.number BEGIN SELECT RAISE(ABORT, 'the attempt has ended, or would become another one'); END;
CREATE TRIGGER an_attempt_stays BEFORE DELETE ON attempts WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'attempts are never deleted'); END;
CREATE TRIGGER the_story_is_not_rewritten BEFORE UPDATE ON story WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'the story is never rewritten'); END;
CREATE TRIGGER the_story_stays BEFORE DELETE ON story WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'the story is never shortened'); END;
CREATE TRIGGER terms_grow BEFORE UPDATE ON lead WHEN NEW.term <= OLD.term BEGIN SELECT RAISE(ABORT, 'an earlier term'); END;
CREATE TRIGGER the_lead_stays BEFORE DELETE ON lead WHEN 1 = 1 BEGIN SELECT RAISE(ABORT, 'terms are never forgotten'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('story',26);
COMMIT;
