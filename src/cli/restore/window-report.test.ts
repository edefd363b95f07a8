import { expect, test } from 'vitest';
import { parse } from 'yaml';

import type { RestoreReport } from '../../api/restore-findings.ts';
import type { RestoreWindow, RestoreWindowStatus, Violation } from '../../api/restore-window.ts';
import { detailsOf, formatDetails, formatList } from './window-report.ts';

const annotations = { 'gatehouse.dev/opened-by': 'alice' };
const drill = (status?: RestoreWindowStatus, spec: Partial<RestoreWindow['spec']> = {}): RestoreWindow => ({
  metadata: { name: 'drill', creationTimestamp: '2026-11-21T10:00:00Z', annotations },
  spec: {
    source: { type: 'Manual' },
    principals: [{ user: 'velero' }, { group: 'restorers' }],
    expiresAt: '2026-11-21T12:00:00Z',
    ...spec,
  },
  ...(status === undefined ? {} : { status }),
});

const violation = (name: string, change: Partial<Violation> = {}): Violation => ({
  policy: 'servers',
  reference: 'datacenter',
  object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name },
  field: 'spec.datacenter',
  reason: 'TargetMissing',
  target: { group: 'infra.example.com', resource: 'datacenters', name: 'muc1' },
  ...change,
});

const swept = (total: number, items: readonly Violation[]): RestoreWindowStatus => ({
  phase: 'CompletedWithViolations',
  openedAt: '2026-11-21T10:00:01.500Z',
  closedAt: '2026-11-21T11:00:00Z',
  closeReason: 'Manual',
  lastSweep: { startedAt: '', finishedAt: '2026-11-21T11:01:06Z', objectsScanned: 12, interim: false },
  violations: { total, items: [...items] },
});

const conditioned = (type: string, reason: string, message: string) => ({
  conditions: [{ type, status: 'False' as const, reason, message, lastTransitionTime: '' }],
});

const report = (part: number, items: readonly Violation[]): RestoreReport => ({
  metadata: { name: `drill-${part}` },
  spec: { window: 'drill', part, parts: 2, violations: [...items] },
});

test('closed windows without violations are collapsed, except the newest', () => {
  const named = (phase: 'Completed' | 'CompletedWithViolations', n: number): RestoreWindow => {
    const openedAt = new Date(Date.UTC(2026, 10, 1, n)).toISOString();
    const one = drill({ phase, openedAt });
    return { ...one, metadata: { ...one.metadata, name: `w-${n}` } };
  };
  const all = [
    named('CompletedWithViolations', 0),
    ...Array.from({ length: 14 }, (_, n) => named('Completed', n + 1)),
  ];
  const table = formatList(all, 'table');
  expect(table).toMatch(/w-14 [^]*w-5 [^]*w-0 /);
  expect(table).not.toMatch(/w-4 /);
  expect(table).toContain('and 4 older windows without violations: gatehouse restore status -o json');
  expect(parse(formatList(all, 'yaml'))).toHaveProperty('windows.length', 15);
});

test('windows are listed with their source, newest first', () => {
  const ref = { apiVersion: 'velero.io/v1', kind: 'Restore', namespace: 'velero', name: 'r1', uid: 'u' };
  const openedAt = '2026-11-21T11:00:00Z';
  const detected: RestoreWindow = {
    metadata: { name: 'velero-0123', creationTimestamp: openedAt },
    spec: { ...drill().spec, source: { type: 'Detector', detector: 'velero', ref } },
    status: { ...swept(2, []), openedAt, relink: { found: 3, linked: 3, skipped: 0, failed: 0 } },
  };
  expect(formatList([drill(), detected], 'table').replaceAll(/ {3,}/g, ' | ')).toBe(
    `NAME | SOURCE | PHASE | SINCE | EXPIRES | VIOLATIONS | RELINKED
velero-0123 | velero: Restore velero/r1 | CompletedWithViolations | 2026-11-21T11:00:00Z | 2026-11-21T12:00:00Z | 2 | 3
drill | Manual | Pending | 2026-11-21T10:00:00Z | 2026-11-21T12:00:00Z | unknown | –
`,
  );
  expect(parse(formatList([drill()], 'yaml'))).toMatchObject({
    windows: [{ name: 'drill', source: 'Manual' }],
  });
  expect(formatList([], 'table')).toContain('no RestoreWindows');
  expect(detailsOf(drill(), []).phase).toBe('Pending');
});

test('the details show conditions, violations, and what to do', () => {
  const status: RestoreWindowStatus = {
    ...swept(1, [violation('web')]),
    ...conditioned('IntegrityVerified', 'ViolationsFound', '1 references name nothing'),
  };
  expect(formatDetails(detailsOf(drill(status, { reason: 'a drill' }), []), 'table')).toBe(
    `RestoreWindow drill: CompletedWithViolations
  source      Manual, opened by alice
  reason      a drill
  defers      CREATE, UPDATE by velero, group restorers, everywhere
  open        2026-11-21T10:00:01Z to 2026-11-21T11:00:00Z (Manual)
  last sweep  2026-11-21T11:01:06Z, 12 objects

CONDITION           STATUS   REASON            MESSAGE
IntegrityVerified   False    ViolationsFound   1 references name nothing

VIOLATION IN      FIELD             POLICY    WHAT
Server shop/web   spec.datacenter   servers   TargetMissing: datacenters.infra.example.com "muc1" does not exist: restore or create it, or correct the field

What to do:
  - fix the violations: Gatehouse removes a violation from the report when its target appears, or at the next check (after one minute at first, later after up to one hour)
`,
  );
});

test('RestoreReports add violations that the window does not list, without duplicates', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => violation(name));
  if (a === undefined || b === undefined || c === undefined) throw new Error('expected three windows');
  const details = detailsOf(drill(swept(5, [a])), [report(1, [c]), report(0, [a, b])]);
  expect(details.violationItems).toEqual([a, b, c]);
  expect(formatDetails(details, 'table')).toContain('\nand 2 more: gatehouse review --cluster');
  expect(JSON.parse(formatDetails(details, 'json'))).toMatchObject({
    violations: 5,
    violationItems: [{}, {}, {}],
  });
});

test('the violations of one object are grouped', () => {
  const slug = violation('web', { policy: 'names', field: 'spec.slug' });
  const items = [violation('web'), violation('db'), slug];
  const text = formatDetails(detailsOf(drill(swept(3, items)), []), 'table');
  expect([...text.matchAll(/^(Server \S+)? +(spec\.\S+) +(\S+) /gm)].map(([, ...cells]) => cells)).toEqual([
    ['Server shop/web', 'spec.datacenter', 'servers'],
    [undefined, 'spec.slug', 'names'],
    ['Server shop/db', 'spec.datacenter', 'servers'],
  ]);
});

test('owner references are shown with their result and how to approve them', () => {
  const { object } = violation('web');
  const owner = { apiVersion: 'v1', kind: 'Datacenter', name: 'muc1' };
  const status: RestoreWindowStatus = {
    ...swept(0, []),
    phase: 'Completed',
    relink: { found: 1, linked: 0, skipped: 1, failed: 0, items: [{ object, owner, result: 'WouldLink' }] },
  };
  const shown = (sweep: NonNullable<RestoreWindow['spec']['sweep']>) =>
    formatDetails(detailsOf(drill(status, { sweep }), []), 'table');
  const text = shown({ requireApprovalToLink: true });
  expect(text).toContain(
    'OWNERS OF         OWNER AND RESULT\nServer shop/web   Datacenter muc1: WouldLink\n',
  );
  expect(text).toContain('gatehouse restore approve drill');
  expect(shown({ requireApprovalToLink: true, approved: true })).not.toContain('restore approve');
});

const unread = {
  ...swept(0, []),
  violations: { items: [] },
  ...conditioned('SweepComplete', 'KindUnreadable', 'racks: 403'),
};

test('a sweep that could not read a kind and found nothing has an unknown number of violations', () => {
  expect(formatList([drill(unread)], 'table')).toMatch(/ unknown +–$/m);
  expect(formatList([drill(unread)], 'json')).not.toContain('"violations"');
});

test.each<readonly [string, RestoreWindowStatus | undefined]>([
  ['check its pods', undefined],
  ['never opens: too broad', { phase: 'Refused', ...conditioned('Open', 'InvalidSpec', 'too broad') }],
  ['gatehouse restore close drill --wait', { phase: 'Open' }],
  ['all checks are enforced again', { phase: 'Settling' }],
  ['restore the rejected objects again', { ...swept(0, []), closeReason: 'Expired' }],
  ['racks: 403', unread],
])('the advice says what to do: %s', (advice, status) => {
  expect(detailsOf(drill(status), []).advice.join('\n')).toContain(advice);
});

test('text from users cannot control the terminal', () => {
  const evil = violation('web', { message: 'a\u001b[2Jb' });
  expect(formatDetails(detailsOf(drill(swept(1, [evil])), []), 'table')).not.toContain('\u001b');
});
