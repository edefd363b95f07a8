/** Each CronJob starts Jobs at the times of its schedule: each run once, whatever crashes when. */
import { defineController, type Frozen, type Kinds } from '@gatehouse-dev/gatehouse';

import { parseCron, type Cron } from './cron/cron.ts';

type Job = Frozen<Kinds['jobs.batch']>;

interface CronJob {
  metadata: { name: string; namespace: string; uid: string; creationTimestamp: string };
  spec: {
    schedule: string;
    startingDeadlineSeconds?: number;
    concurrencyPolicy?: 'Allow' | 'Forbid' | 'Replace';
    suspend?: boolean;
    jobTemplate: {
      metadata?: { labels?: Record<string, string> };
      spec: NonNullable<Kinds['jobs.batch']['spec']>;
    };
    successfulJobsHistoryLimit?: number;
    failedJobsHistoryLimit?: number;
  };
  status?: { lastScheduleTime?: string };
}

const LABEL = 'batch.tutorial.example.com/cronjob';
const MINUTE = 60_000;
/** The name of a Job has at most 63 characters. */
const LONGEST_NAME = 52;

/** From the name, because users can write annotations. */
const timeOf = (name = ''): number => Number(/-(\d+)$/.exec(name)?.[1] ?? 0) * MINUTE;
const timeOfJob = ({ metadata }: Job): number => timeOf(metadata?.name);
const ended = (job: Job, type: 'Complete' | 'Failed'): boolean =>
  job.status?.conditions?.some((one) => one.type === type && one.status === 'True') === true;
const newest = (jobs: readonly Job[], count: number): readonly Job[] =>
  jobs.toSorted((a, b) => timeOfJob(b) - timeOfJob(a)).slice(0, count);

/** The newest run that was not started, and can still start. */
function missedRun({ metadata, spec, status }: Frozen<CronJob>, jobs: readonly Job[], cron: Cron, now: Date) {
  const started = Math.max(
    Date.parse(status?.lastScheduleTime ?? metadata.creationTimestamp),
    ...jobs.map(timeOfJob),
  );
  const deadline = now.getTime() - (spec.startingDeadlineSeconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return cron.last(now, new Date(Math.max(started, deadline)))?.getTime();
}

export default defineController<CronJob>({
  watch: { apiGroups: ['batch.tutorial.example.com'], apiVersions: ['v1'], resources: ['cronjobs'] },
  owns: [{ apiGroups: ['batch'], apiVersions: ['v1'], resources: ['jobs'] }],

  async reconcile(cronJob, { apply, condition, keep, list, now, progress, requeueAfter, stall, status }) {
    const { metadata, spec } = cronJob;
    const { name, namespace, uid } = metadata;
    let cron: Cron;
    try {
      cron = parseCron(spec.schedule);
      if (name.length > LONGEST_NAME) throw new Error(`the name has more than ${LONGEST_NAME} characters`);
    } catch (error) {
      stall('Invalid', `spec.schedule: ${(error as Error).message}`);
      return;
    }
    const labelled = await list('jobs.batch', { labelSelector: { matchLabels: { [LABEL]: name } } });
    const jobs = labelled.filter((job) => job.metadata?.ownerReferences?.some((one) => one.uid === uid));
    const active = jobs.filter((job) => !ended(job, 'Complete') && !ended(job, 'Failed'));
    const { concurrencyPolicy: policy = 'Allow' } = spec;

    const unfinished = progress.current === undefined ? undefined : timeOf(progress.current.operation);
    const mayStart = spec.suspend !== true && !(policy === 'Forbid' && active.length > 0);
    const run = unfinished ?? (mayStart ? missedRun(cronJob, jobs, cron, now()) : undefined);
    if (run !== undefined) {
      const started = `${name}-${run / MINUTE}`;
      status({ lastScheduleTime: new Date(run).toISOString() });
      // Stored before the Job exists: neither a crash nor a second leader starts the run again.
      await progress.start(`start-${started}`);
      const known = jobs.find((job) => job.metadata?.name === started);
      const job = await apply({
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: {
          name: started,
          namespace,
          labels: { ...spec.jobTemplate.metadata?.labels, [LABEL]: name },
        },
        spec: known?.spec ?? spec.jobTemplate.spec,
      });
      progress.finish();
      if (known === undefined) active.push(job);
    }

    const running = policy === 'Replace' ? newest(active, 1) : active;
    const successful = jobs.filter((job) => ended(job, 'Complete'));
    const failed = jobs.filter((job) => ended(job, 'Failed'));
    // Gatehouse deletes the others.
    running.forEach(keep);
    newest(successful, spec.successfulJobsHistoryLimit ?? 3).forEach(keep);
    newest(failed, spec.failedJobsHistoryLimit ?? 1).forEach(keep);
    status({ active: running.map((job) => job.metadata?.name).sort() });

    const next = cron.next(now());
    if (next !== undefined) requeueAfter((next.getTime() - now().getTime()) / 1_000);
    const message = spec.suspend === true ? 'suspended' : `the next run: ${next?.toISOString() ?? 'never'}`;
    condition('Scheduled', 'True', spec.suspend === true ? 'Suspended' : 'Scheduled', message);
  },
});
