/** What Prometheus scrapes from replicas of Gatehouse, healthy or not, for the tests of the alerts. */
import type { RotationPhase } from '../../src/pki/authority/rotation-plan.ts';
import { createMetrics, type AuthorityState, type Metrics } from '../../src/server/metrics/metrics.ts';
import type { RehearsalFigures, ScrapeSources } from '../../src/server/metrics/scraped.ts';
import { runTool } from './go-programs.ts';

export const START = new Date('2026-11-21T12:00:00Z');
export const later = (seconds: number): Date => new Date(START.getTime() + seconds * 1_000);
export const DAY = 86_400;

interface Pod {
  readonly metrics: Metrics;
  readonly eachMinute?: () => void;
}
export type Scene = Readonly<Record<string, Pod>>;

interface Health {
  readonly leads?: boolean;
  readonly clockSkewMs?: number;
  readonly phase?: RotationPhase;
  readonly broken?: AuthorityState['broken'];
  readonly caNotAfter?: Date;
  readonly certNotAfter?: Date;
  readonly stopped?: ReadonlyMap<string, number>;
  readonly stale?: number;
  readonly targets?: ReturnType<NonNullable<ScrapeSources['caBundles']>['targets']>;
  readonly staleSeconds?: number;
  readonly unreadable?: readonly { readonly kind: string }[];
  readonly rehearsal?: RehearsalFigures | undefined;
}

export function webhookPod({ clockSkewMs = 5 }: Health = {}, eachMinute?: (metrics: Metrics) => void): Pod {
  const metrics = createMetrics();
  metrics.scrape({ reviewsInFlight: () => 2, connections: () => 4, clockSkew: () => clockSkewMs });
  const admit = () =>
    metrics.admission({ webhook: 'validate', operation: 'CREATE', outcome: 'allow' }, 0.001);
  admit();
  metrics.certificateRead();
  return {
    metrics,
    eachMinute: () => {
      admit();
      eachMinute?.(metrics);
    },
  };
}

export function controllersPod(health: Health = {}, eachMinute?: (metrics: Metrics) => void): Pod {
  const metrics = createMetrics();
  const { leads = true, clockSkewMs = -5 } = health;
  metrics.scrape({ clockSkew: () => clockSkewMs });
  metrics.leader(leads);
  if (leads) lead(metrics, health);
  return { metrics, ...(eachMinute && { eachMinute: () => eachMinute(metrics) }) };
}

function lead(metrics: Metrics, health: Health): void {
  const { phase = 'steady', broken, caNotAfter = later(5 * 365 * DAY) } = health;
  const { certNotAfter = later(60 * DAY) } = health;
  const { stopped = new Map(), stale = 0, staleSeconds = 0, unreadable = [] } = health;
  const { targets = [{ kind: 'ConfigMap', state: 'injected', count: 3 }] } = health;
  const { rehearsal = { finishedAt: later(-3_600), total: 1, added: 0, backupTakenAt: later(-7_200) } } =
    health;
  metrics.authority({
    phase,
    broken,
    generations: [{ id: 'a', state: 'active', notAfter: caNotAfter, retiresAt: undefined }],
  });
  metrics.issue('issued', 'RenewalDue');
  metrics.scrape({
    servingCerts: {
      all: () => [{ notAfter: certNotAfter, generation: 'a' }],
      stoppedByReason: () => stopped,
      waiting: () => 0,
      contended: () => 0,
      now: () => START,
    },
    servedCerts: () => ({ current: 3, stale, foreign: 0, unreachable: 0 }),
    caBundles: { targets: () => targets, staleSeconds: () => staleSeconds, unreadable: () => unreadable },
    rehearsal: () => rehearsal,
  });
}

export const installed = (changes: Scene = {}): Scene => ({
  'gatehouse-webhook-a': webhookPod(),
  'gatehouse-webhook-b': webhookPod(),
  'gatehouse-controllers-a': controllersPod(),
  'gatehouse-controllers-b': controllersPod({ leads: false }),
  ...changes,
});

interface InputSeries {
  readonly series: string;
  readonly values: string;
}

/** The series of a scene: after the first scrape, each minute adds what the first minute has added. */
export async function seriesOf(
  scene: Scene,
  minutes: number,
  advance: (seconds: number) => void,
): Promise<readonly InputSeries[]> {
  const first = await scrape(scene);
  for (const { eachMinute } of Object.values(scene)) eachMinute?.();
  advance(60);
  const second = await scrape(scene);
  return [...second].map(([series, value]) => {
    const before = first.get(series);
    if (before === undefined) return { series, values: `_ ${value}+${value}x${minutes}` };
    return { series, values: `${before}+${value - before}x${minutes}` };
  });
}

/** Process metrics are noise here: no alert uses them. */
const OWN = /__name__="(?:gatehouse|certwatcher|leader_election|workqueue)_/;

async function scrape(scene: Scene): Promise<ReadonlyMap<string, number>> {
  const all = new Map<string, number>();
  for (const [pod, { metrics }] of Object.entries(scene)) {
    const printed = await runTool('samples', [], await metrics.text());
    for (const line of printed.split('\n').filter((one) => OWN.test(one))) {
      const [series = '', value = ''] = line.split('\t');
      // What the PodMonitor adds.
      all.set(
        series.replace(/\}$/, `, pod="${pod}", instance="${pod}:8080", job="gatehouse"}`),
        Number(value),
      );
    }
  }
  return all;
}
