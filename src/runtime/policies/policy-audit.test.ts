import { beforeEach, expect, test } from 'vitest';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { clusterOf, DATACENTER, GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { resourceOf } from '../../../test/support/definitions.ts';
import { containing, createCluster, silent } from '../../../test/support/runtime/fixtures.ts';
import type { AuditResult } from './stored-objects.ts';
import { createPolicyAuditReconciler, startPolicyAudit, type PolicyAuditOptions } from './policy-audit.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { createPolicyReportsReconciler } from '../reports/policy-reports.ts';
import type { RecordEvent } from '../controller.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');

let inForce: CompiledPolicy;
let policy: AdmissionPolicy;
let stored: KubeObject[];
let audits: PolicyAuditOptions['audits'];
let reports: (AuditResult | undefined)[];
let events: Parameters<RecordEvent>[0][];
let random: number;

beforeEach(() => {
  govern({ validate: { rules: [{ expression: 'object.spec.units < 5', message: 'too many' }] } });
  stored = [];
  audits = new Map();
  reports = [];
  events = [];
  random = 0;
});

function govern(spec: Parameters<typeof policyOf>[0]): void {
  inForce = { ...policyOf(spec), generation: 1 };
  policy = { metadata: { name: 'servers', generation: 1 }, spec: inForce.spec };
}

function server(name: string, spec: object, metadata: object = {}): KubeObject {
  const place = { name, namespace: 'store', ...metadata };
  return { apiVersion: `${GROUP}/v1`, kind: 'Server', metadata: place, spec } as KubeObject;
}

/** The policy has the result of an earlier audit. */
const audited = (violations: NonNullable<NonNullable<AdmissionPolicy['status']>['violations']>): void => {
  policy = { ...policy, status: { violations } };
};
const at = (time: string) => `2026-11-21T${time}Z`;

const namespaceLabels = () => Promise.resolve(new Map([['store', { tier: 'gold' }]]));

async function audit(change: Partial<PolicyAuditOptions> = {}) {
  const reconcile = createPolicyAuditReconciler({
    policies: { get: () => policy },
    registry: { get: () => ({ inForce, problem: undefined, generation: 1 }) },
    stored: {
      // eslint-disable-next-line @typescript-eslint/require-await -- the API server is a stream of pages
      pages: async function* () {
        yield stored.slice(0, 1);
        yield stored.slice(1);
      },
      namespaceLabels,
    },
    world: clusterOf().world,
    audits,
    keepsFindings: false,
    onResult: (name) => reports.push(audits.get(name)?.result),
    record: (event) => events.push(event),
    now: () => new Date(NOW),
    random: () => random,
    log: silent,
    ...change,
  });
  return await reconcile('servers', new AbortController().signal);
}

test('stored objects that violate a rule are counted, reported in the status and in Events', async () => {
  stored = [server('a', { units: 3 }), server('b', { units: 7 }), server('c', { units: 8 })];
  await audit();
  expect(reports).toEqual([{ total: 2, objects: 2, checked: 3, checkedAt: at('12:00:00'), generation: 1 }]);
  expect(events.map(({ reason, regarding, message }) => [reason, regarding.name, message])).toEqual([
    ['PolicyViolation', 'b', 'too many (policy servers)'],
    ['PolicyViolation', 'c', 'too many (policy servers)'],
    ['ViolationsFound', 'servers', '2 violations in 2 of 3 stored objects'],
  ]);
});

test('of many violating objects, the first twenty get an Event', async () => {
  stored = Array.from({ length: 25 }, (_, n) => server(`s${n}`, { units: 7 }));
  await audit();
  expect(events.filter(({ reason }) => reason === 'PolicyViolation')).toHaveLength(20);
});

test('an audit whose exceptions have changed is outdated', () => {
  const { context, signal } = createListedContext();
  const policies = { store: { list: () => [], get: () => undefined } };
  const registry = { get: () => undefined, subscribe: () => undefined };
  const parts = { registry, policies, world: clusterOf().world } as never;
  const { refresh, audits: kept } = startPolicyAudit(context, parts, () => undefined, signal);
  refresh('servers');
  expect(kept.get('servers')).toEqual({ isOutdated: true });
});

test('a change of its exceptions makes the audit due, at most once a minute', async () => {
  stored = [server('a', { units: 7 })];
  audits.set('servers', { isOutdated: true });
  audited({ total: 0, checkedAt: at('11:59:30'), generation: 1 });
  expect(await audit()).toEqual({ kind: 'requeue', at: new Date('2026-11-21T12:00:30Z') });
  audited({ total: 0, checkedAt: at('11:58:59'), generation: 1 });
  await audit();
  expect(reports).toMatchObject([{ total: 1 }]);
  expect(audits.get('servers')?.isOutdated).toBe(false);
});

test('references are audited and counted, and a target that only the store lacks is no violation', async () => {
  const standby = { ...DATACENTER, name: 'standby', path: 'spec.standby' };
  const rules = [{ name: 'datacenter', expression: 'object.spec.units < 5', message: 'too many' }];
  govern({ validate: { references: [DATACENTER, standby], rules } });
  stored = [server('a', { datacenter: 'fra1', units: 1 }), server('b', { datacenter: 'fra2', units: 7 })];
  audited({ total: 2 });
  const live = { [`datacenters.${GROUP}/fra1`]: { metadata: { name: 'fra1' } } };
  await audit({ world: clusterOf({ live }).world });
  expect(reports).toMatchObject([{ total: 2, objects: 1, byReference: { datacenter: 1, standby: 0 } }]);
  expect(events.map(({ regarding }) => regarding.name)).toEqual(['b']); // the total is as before
});

test('a kind that cannot be read does not count as clean, and is retried soon', async () => {
  const again = await audit({
    stored: {
      // eslint-disable-next-line require-yield, @typescript-eslint/require-await -- the list fails before its first page
      pages: async function* () {
        throw new Error('servers.infra.example.com is forbidden');
      },
      namespaceLabels,
    },
  });
  expect(reports).toMatchObject([{ total: 0, message: containing('is forbidden') }]);
  expect(events.map(({ reason }) => reason)).toEqual(['AuditIncomplete']);
  expect(again).toEqual({ kind: 'requeue', at: new Date(NOW + 5 * 60_000) });
});

test('at the limit of live reads the audit ends and reports an incomplete count', async () => {
  govern({ validate: { references: [DATACENTER] } });
  stored = Array.from({ length: 1_500 }, (_, n) => server(`s${n}`, { datacenter: `gone-${n}` }));
  const cluster = clusterOf();
  await audit({ world: cluster.world });
  expect(cluster.reads).toHaveLength(1_000);
  expect(reports).toMatchObject([{ total: 1_000, message: containing('incomplete') }]);
});

test('an audit is repeated hourly, with jitter, and a new leader does not repeat it earlier', async () => {
  random = 1;
  expect(await audit()).toEqual({ kind: 'requeue', at: new Date(NOW + 66 * 60_000) });
  random = 0;
  audited({ total: 0, checkedAt: at('11:30:00'), generation: 1 });
  expect(await audit()).toEqual({ kind: 'requeue', at: new Date(NOW + 29 * 60_000) });
  expect(reports).toHaveLength(1);
});

test.each([
  ['of an older generation', { generation: 0 }],
  ['that was incomplete', { generation: 1, message: 'x' }],
])('an audit %s does not delay the next one', async (_what, earlier) => {
  audited({ total: 0, checkedAt: at('11:59:00'), ...earlier });
  await audit();
  expect(reports).toHaveLength(1);
});

test.each<[string, Parameters<typeof policyOf>[0]]>([
  ['audit: false', { audit: false, validate: { rules: [{ expression: 'false' }] } }],
  ['nothing but immutable fields', { validate: { immutable: ['spec.units'] } }],
])('a policy with %s is not audited, and its older result is forgotten', async (_what, spec) => {
  govern(spec);
  expect(await audit()).toEqual({ kind: 'await-change' });
  expect(reports).toEqual([undefined]);
});

test('a deferred reference counts once its grace period ends, and is checked then', async () => {
  const initiallyDeferred = { principals: [{ user: 'flux' }], grace: '5m' };
  govern({ validate: { references: [DATACENTER] }, initiallyDeferred });
  stored = [
    server('young', { datacenter: 'gone' }, { creationTimestamp: at('11:55:01') }),
    server('old', { datacenter: 'gone' }, { creationTimestamp: at('11:55:00') }),
  ];
  expect(await audit()).toEqual({ kind: 'requeue', at: new Date(NOW + 5 * 60_000) });
  expect(reports).toMatchObject([{ total: 1, checked: 2 }]);
});

test('for the policy reports, a new leader repeats the audit once and keeps what it found', async () => {
  stored = [server('a', { units: 7 }), server('b', { units: 3 })];
  audited({ total: 1, checkedAt: at('11:59:00'), generation: 1 });
  await audit({ keepsFindings: true });
  await audit({ keepsFindings: true });
  expect(reports).toHaveLength(1);
  expect(audits.get('servers')?.findings).toMatchObject({
    counts: new Map([['store', 1]]),
    listed: [{ namespace: 'store', kind: 'Server', name: 'a', message: 'too many' }],
    problem: undefined,
  });
  govern({ audit: false, validate: { rules: [{ expression: 'false' }] } });
  await audit({ keepsFindings: true });
  expect(audits.size).toBe(0);
});

test('the findings of all policies together are limited, and the counts are not', async () => {
  const listed = Array.from({ length: 9_800 }, (_, n) => ({
    namespace: 'store',
    apiVersion: `${GROUP}/v1`,
    kind: 'Server',
    name: `s${n}`,
    rule: undefined,
    message: 'too many',
  }));
  const other = { policy: 'other', enforcement: 'Deny', counts: new Map(), problem: undefined } as const;
  audits.set('other', { findings: { ...other, listed } });
  stored = Array.from({ length: 700 }, (_, n) => server(`s${n}`, { units: 7 }));
  await audit({ keepsFindings: true });
  expect(audits.get('servers')?.findings?.listed).toHaveLength(500);
  expect(audits.get('servers')?.findings?.counts).toEqual(new Map([['store', 700]]));
});

test('the policy reports are written with a pause after each write', async () => {
  const reportsIn = (resource: string) => resourceOf('openreports.io', resource, 'Report', true, 'v1alpha1');
  const kinds = ['reports', 'clusterreports'].map(reportsIn);
  stored = ['a', 'b'].map((namespace) => server('s', { units: 7 }, { namespace }));
  await audit({ keepsFindings: true });
  const pauses: number[] = [];
  const { client, objects } = createCluster();
  const reconcile = createPolicyReportsReconciler({
    client,
    discovery: { servedIn: (group) => Promise.resolve(kinds.filter((kind) => kind.group === group)) },
    namespaces: undefined,
    findings: () => [...audits.values()].flatMap(({ findings }) => findings ?? []),
    pending: () => [],
    now: () => new Date(NOW),
    clock: {
      now: () => NOW,
      monotonic: () => NOW,
      after: (ms, run) => {
        pauses.push(ms);
        run();
        return () => undefined;
      },
    },
    log: silent,
  });
  await reconcile('reports', new AbortController().signal);
  expect(kinds.map((kind) => objects(kind).writes())).toEqual([2, 0]);
  expect(pauses).toEqual([55, 55]);
});
