import { expect, test } from 'vitest';

import { at, healthy, NOW, read, REPORT_CONTEXT } from '../../../../../test/support/cli/readings.ts';
import { healthy as installation } from '../../../../../test/support/cli/healthy.ts';
import { runChecks } from '../../doctor/doctor.ts';
import { statusContent } from '../../page/status-page.ts';
import { formatStatus } from '../status.ts';
import { statusReport } from './status-report.ts';

const ROW = {
  name: 'users',
  watches: 'users.people.example.com',
  timeoutSeconds: 60,
  missing: [] as readonly object[],
  objects: 3,
  queued: 1,
  active: 1,
  lastPass: { object: 'alice', at: at(-60_000), result: 'success' },
  failing: 0,
  delayed: 0,
  stalled: 0,
  troubles: [] as readonly object[],
};
const state = (row: object = {}, more: object = {}) => ({
  leader: 'gatehouse-a',
  at: at(-120_000),
  controllers: [{ ...ROW, ...row }],
  omitted: 0,
  former: [],
  ...more,
});
const published = (content: object | string) => {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  return { userControllers: read({ data: { 'report.json': text } }) };
};
const reportOf = (content: object | string, change: Partial<typeof healthy> = {}) =>
  statusReport({ ...healthy, ...published(content), ...change }, REPORT_CONTEXT);
const trouble = (kind: string, message = 'no disk: full') => ({
  object: 'bob',
  kind,
  reason: 'ReconcileFailed',
  message,
  since: at(-5_000),
});
const missing = (why: string, kind = 'users.people.example.com') => ({
  missing: [{ kind, why, message: 'said the API server' }],
});

test('the text and the page show each controller, and a healthy one needs no attention', () => {
  const report = reportOf(state());
  expect(report.attention).toEqual([]);
  expect(report.healthy).toBe(true);
  expect(formatStatus(report, false)).toMatch(
    /^Controllers of users: 1\n {2}NAME.*\n {2}users +users\.people\.example\.com +3 +2 +0 +60s ago, success$/m,
  );
  expect(statusContent(report, [], []).text).toContain('<section id="controllers"');
});

test('without controllers, there is no section', () => {
  for (const content of [undefined, state({}, { controllers: [] })])
    expect(
      formatStatus(content === undefined ? statusReport(healthy, REPORT_CONTEXT) : reportOf(content), false),
    ).not.toContain('Controllers of users');
});

const lease = (spec: object) => ({ lease: read({ spec }) });
const RENEWED = { renewTime: at(-2_000), leaseDurationSeconds: 15 };

test.each([
  [
    'another replica leads',
    lease({ ...RENEWED, holderIdentity: 'b' }),
    'b, which leads now, has not written it yet',
  ],
  [
    'the leader is gone',
    lease({ ...RENEWED, renewTime: at(-60_000), holderIdentity: 'gatehouse-a' }),
    'no replica leads',
  ],
  ['there is no Lease', { lease: read(undefined) }, 'no replica leads now'],
])('the state is stale, never healthy, if %s', (_what, change, message) => {
  const report = reportOf(state(), change);
  expect(report.healthy).toBe(false);
  const found = report.attention.find(({ part }) => part === 'userControllers')?.message;
  expect(found).toContain(message);
  expect(found).toContain('this is the state of 2m ago');
  expect(formatStatus(report, false)).toMatch(/^Controllers of users: 1 \(stale: /m);
});

const PROBLEMS: readonly (readonly [string, object, string, string])[] = [
  [
    'a deleted CustomResourceDefinition',
    missing('NotServed'),
    'the API server does not serve users.people.example.com, so it reconciles nothing',
    'create its CustomResourceDefinition',
  ],
  [
    'a missing kind in owns',
    missing('NotServed', 'pods'),
    'does not serve pods, so it works without',
    'create its',
  ],
  [
    'a missing permission',
    missing('Forbidden'),
    'cannot be read',
    '{"apiGroups":["people.example.com"],"resources":["users"],"verbs":["get","list","watch"]}',
  ],
  ['a kind that fails', missing('Failed'), '(said the API server)', 'log of the leader'],
  [
    'a failing object',
    { failing: 7, troubles: [trouble('failing')] },
    `7 objects failed in its last pass: bob since ${at(-5_000)} (ReconcileFailed: no disk: full); and 6 more`,
    'correct the cause',
  ],
  [
    'a fight',
    { delayed: 1, troubles: [trouble('delayed')] },
    '1 object keeps changing',
    'metadata.managedFields',
  ],
  ['a stalled object', { stalled: 1 }, '1 object waits for a user', 'correct the object'],
  [
    'an old pass',
    { oldestPass: { object: 'eve', at: at(-300_000) } },
    'a pass over eve has run for 5m',
    '"signal"',
  ],
];

test.each(PROBLEMS)('%s is a problem in status and doctor, with the next step', (_what, row, seen, next) => {
  const attention = reportOf(state(row)).attention.filter(({ part }) => part === 'userControllers');
  expect(attention).toHaveLength(1);
  expect(attention[0]?.object).toBe('Controller users');
  expect(attention[0]?.message).toContain(seen);
  expect(attention[0]?.message).toContain(next);
  const readings = { ...installation, ...published(state(row)), lease: healthy.lease, now: NOW };
  const [found, ...others] = runChecks(readings).filter(({ check }) => check === 'user-controllers');
  expect(others).toEqual([]);
  expect(found?.severity).toBe('problem');
  expect(found?.seen).toContain(seen);
  expect(found?.next).toContain(next);
});

test('a controller that runs on a laptop is shown as lent, without its old problems', () => {
  const report = reportOf(state({ lentTo: 'alice', failing: 3 }));
  expect(report.attention).toEqual([]);
  expect(formatStatus(report, false)).toContain('lent: it runs in the dev session of alice');
});

test('finalizers of a controller that does not exist are found', () => {
  const objects = ['a', 'b'].map((object) => ({ controller: 'old', object }));
  const readings = {
    ...installation,
    finalized: [{ kind: 'users.people.example.com', objects: read(objects) }],
  };
  const [found] = runChecks({ ...readings, ...published(state()), lease: healthy.lease, now: NOW }).filter(
    ({ check, severity }) => check === 'user-controllers' && severity !== 'ok',
  );
  expect(found).toMatchObject({ severity: 'warning' });
  expect(found?.seen).toContain(
    'gatehouse.dev/controller-old is left on 2 objects of users.people.example.com: a, b',
  );
});

const EVIL = '\u001b[2J\u202e<img src=x>';
const evil = { object: EVIL, kind: EVIL, reason: EVIL, message: EVIL, since: EVIL, why: EVIL };
const pass = { object: EVIL, at: EVIL, result: EVIL };

test.each<[string, object | string]>([
  ['no JSON', '{'],
  ['an array', '[]'],
  ['deep JSON', '['.repeat(100_000)],
  ['a name with control characters', state({ name: EVIL })],
  ['numbers', { leader: 1, at: at(0), controllers: [1, null, 'x', [[]]], former: 7 }],
])('forged content is reported as not valid, and is never healthy: %s', (_what, content) => {
  const report = reportOf(content);
  expect(report.healthy).toBe(false);
  expect(report.userControllers.unread).toMatchObject([{ reason: 'Failed' }]);
  const found = runChecks({ ...installation, ...published(content) });
  expect(found.filter(({ severity }) => severity === 'unknown')).toMatchObject([
    { check: 'user-controllers' },
  ]);
});

test('forged texts and numbers neither crash nor reach the terminal or the page', () => {
  const row = {
    lentTo: '',
    missing: [evil],
    troubles: [evil],
    lastPass: pass,
    oldestPass: pass,
    failing: -1e300,
    objects: 'x',
    delayed: 1e300,
  };
  const content = { ...state(row), leader: EVIL };
  const report = reportOf(content, lease({ ...RENEWED, holderIdentity: 'b' }));
  for (const colours of [true, false]) {
    const text = formatStatus(report, colours);
    for (const code of ['\u001b[2J', '\u202e']) expect(text).not.toContain(code);
  }
  expect(statusContent(report, [], []).text).not.toContain('<img');
  expect(report.healthy).toBe(false);
});
