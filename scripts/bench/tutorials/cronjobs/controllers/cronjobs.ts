/** The CronJob of the kubebuilder book: a Job at each time of a schedule. */
import { defineController } from '../../../../../src/index.ts';

import { nextTime, parseSchedule, type Schedule } from './cron/schedule.ts';

interface CronJob {
  metadata: { name: string; namespace: string; creationTimestamp: string };
  spec: {
    schedule: string;
    startingDeadlineSeconds?: number;
    concurrencyPolicy: 'Allow' | 'Forbid' | 'Replace';
    suspend?: boolean;
    successfulJobsHistoryLimit?: number;
    failedJobsHistoryLimit?: number;
    jobTemplate: { metadata?: Pick<Job['metadata'], 'labels' | 'annotations'>; spec: object };
  };
  status?: { lastScheduleTime?: string };
}

interface Job {
  metadata: {
    name: string;
    uid: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  status?: { startTime?: string; conditions?: readonly { type: string; status: string }[] };
}

const SCHEDULED = 'batch.tutorial.kubebuilder.io/scheduled-at';
const CRON_JOB = 'batch.tutorial.kubebuilder.io/cronjob';
const MOST_MISSED = 100;

const endOf = ({ status }: Job): string | undefined =>
  status?.conditions?.find(
    ({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True',
  )?.type;
const timeOf = ({ metadata }: Job): string => metadata.annotations?.[SCHEDULED] ?? '';

/** The last of the missed times. @throws Error if there are too many */
function missedTime(schedule: Schedule, from: Date, now: Date): Date | undefined {
  let last: Date | undefined;
  let count = 0;
  for (let at = nextTime(schedule, from); at !== undefined && at <= now; at = nextTime(schedule, at)) {
    last = at;
    count += 1;
    if (count > MOST_MISSED) throw new Error('too many missed times: set startingDeadlineSeconds');
  }
  return last;
}

const latestOf = (times: readonly string[]): string | undefined => times.toSorted().at(-1);

export default defineController<CronJob>({
  watch: { apiGroups: ['batch.tutorial.kubebuilder.io'], apiVersions: ['v1'], resources: ['cronjobs'] },
  owns: [{ apiGroups: ['batch'], apiVersions: ['v1'], resources: ['jobs'] }],

  async reconcile(
    { metadata, spec, status: known },
    { apply, keep, list, now, requeueAfter, stall, status },
  ) {
    const { name, namespace } = metadata;
    const found = await list<Job>('jobs.batch', { labelSelector: { matchLabels: { [CRON_JOB]: name } } });
    const jobs = found.toSorted((a, b) => timeOf(a).localeCompare(timeOf(b)));
    const ofEnd = (end: string | undefined) => jobs.filter((job) => endOf(job) === end);
    const active = ofEnd(undefined);
    const newest = (ended: readonly Job[], limit = ended.length) =>
      ended.slice(Math.max(0, ended.length - limit));
    const kept = new Set([
      ...active,
      ...newest(ofEnd('Complete'), spec.successfulJobsHistoryLimit),
      ...newest(ofEnd('Failed'), spec.failedJobsHistoryLimit),
    ]);
    const last = latestOf([known?.lastScheduleTime ?? '', ...jobs.map(timeOf)].filter((time) => time !== ''));
    const report = (running: readonly { metadata: { name: string; uid?: string } }[], at = last) => {
      const refs = running.map(({ metadata: { name: job, uid } }) => ({
        ...{ apiVersion: 'batch/v1', kind: 'Job', name: job, namespace, uid },
      }));
      status({ lastScheduleTime: at, active: refs.length === 0 ? null : refs });
    };
    const keepAll = () => {
      for (const job of kept)
        keep({ apiVersion: 'batch/v1', kind: 'Job', metadata: { name: job.metadata.name, namespace } });
    };
    let schedule: Schedule;
    try {
      schedule = parseSchedule(spec.schedule);
    } catch (error) {
      stall('InvalidSchedule', (error as Error).message);
      return;
    }
    const time = now();
    const deadlineMs = (spec.startingDeadlineSeconds ?? Infinity) * 1_000;
    const from = new Date(
      Math.max(Date.parse(last ?? metadata.creationTimestamp), time.getTime() - deadlineMs),
    );
    const missed = missedTime(schedule, from, time);
    const next = nextTime(schedule, time);
    if (next !== undefined) requeueAfter((next.getTime() - time.getTime()) / 1_000);
    const isHeld = spec.concurrencyPolicy === 'Forbid' && active.length > 0;
    if (missed === undefined || spec.suspend === true || isHeld) {
      keepAll();
      report(active);
      return;
    }
    if (spec.concurrencyPolicy === 'Replace') for (const job of active) kept.delete(job);
    keepAll();
    const { metadata: template = {}, spec: job } = spec.jobTemplate;
    const scheduled = missed.toISOString().replace('.000Z', 'Z');
    const created = await apply<'batch/v1', 'Job'>({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        ...{ name: `${name}-${missed.getTime() / 1_000}`, namespace },
        labels: { ...template.labels, [CRON_JOB]: name },
        annotations: { ...template.annotations, [SCHEDULED]: scheduled },
      },
      spec: job as never,
    });
    report([...active.filter((one) => kept.has(one)), created as Job], scheduled);
  },
});
