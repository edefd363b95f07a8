// suite: processes
/** Every alert with promtool: it fires for what Prometheus scrapes from a broken installation, and not for a healthy one. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parse } from 'yaml';

import { createMetrics, type Metrics } from '../../src/server/metrics/metrics.ts';
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
import { testFolder } from '../support/folder.ts';
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

const folder = testFolder('alerts');
beforeEach(() => {
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify(spec)); // JSON is YAML
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const MINUTES = { m: 1, h: 60, d: 24 * 60 };
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
const API_SERVICE = { kind: 'APIService' };
const bundles = (state: string) => leader({ targets: [{ ...API_SERVICE, state, count: 1 }] });

/** The scene, the labels of the alert besides its own, and other alerts that fire as well. */
type Case = [
  alert: string,
  what: string,
  scene: () => Scene,
  labels?: Readonly<Record<string, string>>,
  others?: readonly string[],
];
const idle = () => controllersPod({ leads: false });
const onWebhook = (change: (metrics: Metrics) => void) => () => replica({}, change);
const ended = (seconds: number, backup = seconds) => ({
  rehearsal: { finishedAt: later(seconds), backupTakenAt: later(backup) },
});
const CASES: readonly Case[] = [
  [
    'GatehouseNoLeader',
    'no replica holds the lease',
    () => installed({ 'gatehouse-controllers-a': idle(), 'gatehouse-controllers-b': idle() }),
  ],
  ['GatehouseNoLeader', 'no scrape', () => ({}), { name: 'gatehouse' }, ['GatehouseNoWebhookReplica']],
  ['GatehouseNoWebhookReplica', 'controllers', () => ({ 'gatehouse-controllers-a': controllersPod() })],
  ['GatehouseAuthorityBroken', 'gone', () => leader({ broken: 'Missing' }), { reason: 'Missing' }],
  ['GatehouseAuthorityEnding', 'in 29 days', () => leader({ caNotAfter: later(29 * DAY) })],
  ...(['publishing', 'propagating'] as const).map((phase): Case => [
    'GatehouseRotationStuck',
    `${phase} for more than six hours`,
    () => {
      const scene = leader({ phase });
      vi.advanceTimersByTime(6 * 3_600_000 + 1_000);
      return scene;
    },
    { phase },
  ]),
  ['GatehouseCABundleStale', 'after ten minutes', () => leader({ staleSeconds: 601 })],
  ['GatehouseCABundleContended', 'once', () => bundles('contended'), API_SERVICE],
  ['GatehouseCABundleUnreadable', 'a kind', () => leader({ unreadable: [API_SERVICE] }), API_SERVICE],
  ['GatehouseInjectionInvalid', 'once', () => bundles('invalid'), API_SERVICE],
  ['GatehouseServingCertExpired', 'a minute ago', () => leader({ certNotAfter: later(-60) })],
  [
    'GatehouseServingCertNotRenewed',
    'because of another owner',
    () => leader({ stopped: new Map([['SecretTaken', 1]]) }),
    { reason: 'SecretTaken' },
  ],
  ['GatehouseServingCertStale', 'one server', () => leader({ stale: 1 })],
  ...(['Error', 'TrustNotRecorded'] as const).map((reason): Case => [
    'GatehouseIssuingFails',
    reason,
    () => leader({}, ({ issue }) => issue('failed', reason)),
  ]),
  [
    'GatehouseAdmissionErrors',
    'validating',
    onWebhook(({ admission }) =>
      admission({ webhook: 'validate', operation: 'CREATE', outcome: 'error' }, 1),
    ),
    { webhook: 'validate' },
  ],
  [
    'GatehouseReviewsRefused',
    'a late event loop',
    onWebhook(({ refusedReview }) => refusedReview('event-loop')),
    { pod: 'gatehouse-webhook-a', reason: 'event-loop' },
  ],
  [
    'GatehouseCertificateUnusable',
    'unreadable',
    onWebhook(({ certificateReadFailed }) => certificateReadFailed()),
    { pod: 'gatehouse-webhook-a' },
  ],
  ...[31_000, -31_000].map((clockSkewMs): Case => [
    'GatehouseClockSkew',
    `${clockSkewMs} ms`,
    () => replica({ clockSkewMs }),
    { instance: 'gatehouse-webhook-a:8080' },
  ]),
  ...(
    [
      ['GatehouseControllerFails', { failing: 1 }, 0],
      ['GatehouseControllerDelayed', { delayed: 1 }, 0],
      ['GatehouseControllerKindMissing', {}, 1],
    ] as const
  ).map(([alert, objects, kinds]): Case => [
    alert,
    'of one controller',
    () =>
      leader({}, ({ userController }) => {
        const meter = userController('users', { concurrency: 1, metrics: {} });
        meter.troubled({ failing: 0, delayed: 0, stalled: 3, ...objects });
        meter.missingKinds(kinds);
      }),
    { controller: 'users' },
  ]),
  [
    'GatehouseControllerStuck',
    'for more than 15 minutes',
    () =>
      leader({}, ({ queueLoad }) =>
        queueLoad('controller-users', () => ({
          unfinishedWorkSeconds: 901,
          longestRunningProcessorSeconds: 901,
        })),
      ),
    { name: 'controller-users' },
  ],
  [
    'GatehouseRestoreRehearsalWorse',
    'a new problem',
    () => leader({ rehearsal: { ...ended(-60, -3_600).rehearsal, total: 2, added: 1 } }),
  ],
  ...[-3 * DAY, 3 * DAY].map((seconds): Case => [
    'GatehouseRestoreNotRehearsed',
    `since ${later(seconds).toISOString()}`,
    () => leader(ended(seconds)),
  ]),
  ['GatehouseRehearsedBackupOld', 'three days', () => leader(ended(-60, -3 * DAY))],
];

test('every alert has a scene', () => {
  expect([...new Set(CASES.map(([alert]) => alert))].toSorted()).toEqual(
    rules.map(({ alert }) => alert).toSorted(),
  );
});

/** Rates need some scrapes, in minutes. */
const SLACK = 10;

test.each<Case>(CASES)('%s fires: %s', async (alert, _what, makeScene, labels = {}, others = []) => {
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
  // prom-client's own names break some of the rules.
  const own = text.split('\n').filter((line) => !line.includes('nodejs_'));
  await runTool('promtool', ['check', 'metrics'], own.join('\n'));
});
