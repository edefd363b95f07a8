// suite: processes
/** Every alert with promtool: it fires for what Prometheus scrapes from a broken installation, and not for a healthy one. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { parse } from 'yaml';

import { createMetrics } from '../../src/server/metrics/metrics.ts';
import {
  controllersPod,
  DAY,
  installed,
  later,
  seriesOf,
  START,
  webhookPod,
  type Scene,
} from '../support/alert-scenes.ts';
import { runTool } from '../support/go-programs.ts';

interface Rule {
  readonly alert: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: { readonly summary: string };
}

const FILE = join(import.meta.dirname, '..', '..', 'deploy', 'monitoring', 'prometheus-rule.yaml');
const { spec } = parse(readFileSync(FILE, 'utf8')) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
};
const rules = spec.groups.flatMap((group) => group.rules);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-alerts-'));
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify(spec)); // JSON is YAML
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const MINUTES = { m: 1, h: 60, d: 24 * 60 };
/** The duration of `for`, in minutes. */
function minutesOf({ for: text = '0m' }: Rule): number {
  const unit = text.slice(-1) as keyof typeof MINUTES; // an unknown unit gives NaN, which promtool refuses
  return Number(text.slice(0, -1)) * MINUTES[unit];
}

async function testRules(scene: Scene, minutes: number, tests: object): Promise<void> {
  const input_series = await seriesOf(
    scene,
    minutes,
    (seconds) => void vi.advanceTimersByTime(seconds * 1_000),
  );
  const file = join(folder, 'test.yaml');
  const group = { interval: '1m', start_timestamp: START.toISOString(), input_series, ...tests };
  writeFileSync(
    file,
    JSON.stringify({ rule_files: ['rules.yaml'], evaluation_interval: '1m', tests: [group] }),
  );
  await runTool('promtool', ['test', 'rules', file]);
}

const leader = (...args: Parameters<typeof controllersPod>) =>
  installed({ 'gatehouse-controllers-a': controllersPod(...args) });
const replica = (...args: Parameters<typeof webhookPod>) =>
  installed({ 'gatehouse-webhook-a': webhookPod(...args) });
const bundles = (state: string) => leader({ targets: [{ kind: 'APIService', state, count: 1 }] });

/** The scene, the labels of the alert besides its own, and other alerts that fire as well. */
type Case = [
  what: string,
  alert: string,
  scene: () => Scene,
  labels?: Readonly<Record<string, string>>,
  others?: readonly string[],
];
const CASES: readonly Case[] = [
  [
    'no replica holds the lease',
    'GatehouseNoLeader',
    () =>
      installed({
        'gatehouse-controllers-a': controllersPod({ leads: false }),
        'gatehouse-controllers-b': controllersPod({ leads: false }),
      }),
  ],
  [
    'nothing is scraped',
    'GatehouseNoLeader',
    () => ({}),
    { name: 'gatehouse' },
    ['GatehouseNoWebhookReplica'],
  ],
  [
    'only controllers are scraped',
    'GatehouseNoWebhookReplica',
    () => ({ 'gatehouse-controllers-a': controllersPod() }),
  ],
  [
    'the authority is gone',
    'GatehouseAuthorityBroken',
    () => leader({ broken: 'Missing' }),
    { reason: 'Missing' },
  ],
  ['the CA ends in 29 days', 'GatehouseAuthorityEnding', () => leader({ caNotAfter: later(29 * DAY) })],
  ...(['publishing', 'propagating'] as const).map((phase): Case => [
    `a rotation is ${phase} for more than six hours`,
    'GatehouseRotationStuck',
    () => {
      const scene = leader({ phase });
      vi.advanceTimersByTime(6 * 3_600_000 + 1_000);
      return scene;
    },
    { phase },
  ]),
  ['an object waits for its bundle', 'GatehouseCABundleStale', () => leader({ staleSeconds: 601 })],
  [
    'another client removes a bundle',
    'GatehouseCABundleContended',
    () => bundles('contended'),
    { kind: 'APIService' },
  ],
  [
    'a kind cannot be listed',
    'GatehouseCABundleUnreadable',
    () => leader({ unreadable: [{ kind: 'APIService' }] }),
    { kind: 'APIService' },
  ],
  ['a request is invalid', 'GatehouseInjectionInvalid', () => bundles('invalid'), { kind: 'APIService' }],
  ['a certificate has expired', 'GatehouseServingCertExpired', () => leader({ certNotAfter: later(-60) })],
  [
    'a certificate is not renewed',
    'GatehouseServingCertNotRenewed',
    () => leader({ stopped: new Map([['SecretTaken', 1]]) }),
    { reason: 'SecretTaken' },
  ],
  ['a server has not reloaded', 'GatehouseServingCertStale', () => leader({ stale: 1 })],
  ...(['Error', 'TrustNotRecorded'] as const).map((reason): Case => [
    `issuing ends with ${reason}`,
    'GatehouseIssuingFails',
    () => leader({}, ({ issue }) => issue('failed', reason)),
  ]),
  [
    'reviews end in errors',
    'GatehouseAdmissionErrors',
    () =>
      replica({}, ({ admission }) =>
        admission({ webhook: 'validate', operation: 'CREATE', outcome: 'error' }, 1),
      ),
    { webhook: 'validate' },
  ],
  [
    'a replica is overloaded',
    'GatehouseReviewsRefused',
    () => replica({}, ({ refusedReview }) => refusedReview('event-loop')),
    { pod: 'gatehouse-webhook-a', reason: 'event-loop' },
  ],
  [
    'a certificate cannot be read',
    'GatehouseCertificateUnusable',
    () => replica({}, ({ certificateReadFailed }) => certificateReadFailed()),
    { pod: 'gatehouse-webhook-a' },
  ],
  ...[31_000, -31_000].map((clockSkewMs): Case => [
    `a clock differs by ${clockSkewMs} ms`,
    'GatehouseClockSkew',
    () => replica({ clockSkewMs }),
    { instance: 'gatehouse-webhook-a:8080' },
  ]),
  [
    'a rehearsal has a new problem',
    'GatehouseRestoreRehearsalWorse',
    () => leader({ rehearsal: { finishedAt: later(-60), total: 2, added: 1, backupTakenAt: later(-3_600) } }),
  ],
  ...[-3 * DAY, 3 * DAY].map((seconds): Case => [
    `a rehearsal ended at ${later(seconds).toISOString()}`,
    'GatehouseRestoreNotRehearsed',
    () => leader({ rehearsal: { finishedAt: later(seconds), backupTakenAt: later(seconds) } }),
  ]),
  [
    'the rehearsed backup was old',
    'GatehouseRehearsedBackupOld',
    () => leader({ rehearsal: { finishedAt: later(-60), backupTakenAt: later(-3 * DAY) } }),
  ],
];

test('every alert has a scene', () => {
  expect([...new Set(CASES.map(([, alert]) => alert))].toSorted()).toEqual(
    rules.map(({ alert }) => alert).toSorted(),
  );
});

/** Rates need some scrapes, in minutes. */
const SLACK = 10;

test.each<Case>(CASES)('when %s, %s fires', async (_what, alert, makeScene, labels = {}, others = []) => {
  const rule = rules.find((one) => one.alert === alert);
  if (rule === undefined) throw new Error(`there is no alert ${alert}`);
  const wait = minutesOf(rule);
  const summary = rule.annotations.summary.replace(
    /\{\{ \$labels\.(\w+) \}\}/g,
    (_all, label: string) => labels[label] ?? '',
  );
  const fired = { exp_labels: { ...rule.labels, ...labels }, exp_annotations: { summary } };
  const at = (minute: number) => `${minute}m`;
  await testRules(makeScene(), wait + SLACK, {
    alert_rule_test: [
      ...(wait === 0 ? [] : [{ eval_time: at(wait - 1), alertname: alert, exp_alerts: [] }]),
      { eval_time: at(wait + SLACK), alertname: alert, exp_alerts: [fired] },
    ],
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: at(wait + SLACK),
        exp_samples: [alert, ...others].map((alertname) => ({
          labels: `{alertname="${alertname}"}`,
          value: 1,
        })),
      },
    ],
  });
});

test.each([
  ['two Deployments', installed],
  ['one Deployment', () => ({ 'gatehouse-a': controllersPod(), 'gatehouse-b': webhookPod() })],
])('while all is well, no alert fires or is pending: %s', async (_what, makeScene) => {
  const promql_expr_test = [{ expr: 'ALERTS', eval_time: '2h', exp_samples: [] }];
  await testRules(makeScene(), 120, { promql_expr_test });
});

test('promtool finds nothing to complain about in the rules', async () => {
  await runTool('promtool', ['check', 'rules', '--lint=all', '--lint-fatal', join(folder, 'rules.yaml')]);
});

test('promtool finds nothing to complain about in the metrics', async () => {
  const text = await createMetrics().text();
  // prom-client names some of its own wrongly.
  const own = text.split('\n').filter((line) => !line.includes('nodejs_'));
  await runTool('promtool', ['check', 'metrics'], own.join('\n'));
});
