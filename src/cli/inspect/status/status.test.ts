import { expect, test } from 'vitest';

import type { Condition } from '../../../json/kube-object.ts';
import { healthy, policy, read, at, NOW, REPORT_CONTEXT } from '../../../../test/support/cli/readings.ts';
import { statusReport } from './report/status-report.ts';
import { nextGeneration, timeLine } from './cells.ts';
import { relative, span } from './times.ts';
import { formatStatus } from './status.ts';

const shown = (change: Partial<typeof healthy>, colours = false): string =>
  formatStatus(statusReport({ ...healthy, ...change }, REPORT_CONTEXT), colours);

test('the text shows each part, and the verdict at the end', () => {
  const text = shown({});
  expect(text).toContain('Leader: gatehouse-a, for 24h');
  expect(text).toMatch(/^Certificate authority: steady; the next generation is due in \d+d$/m);
  expect(text).toMatch(/^ {2}[0-9a-f]{8} +active +2026-03-01 10:00Z +2028-02-29 11:00Z +in 729d +\|={39}$/m);
  expect(text).toMatch(/^ {2}prod\/db-tls +db +Valid +in 23h +in \d+h +signed by [0-9a-f]{8}$/m);
  expect(text).toMatch(/^ {2}ValidatingWebhookConfiguration +third-party +Current +authority$/m);
  expect(text).toMatch(/^ {2}servers +True +True +Warn +4$/m);
  expect(text).toContain('RestoreWindows: 1 of 2 open or with violations');
  expect(text.endsWith('\n\nGatehouse is healthy.\n')).toBe(true);
});

test('text from users cannot control the terminal, and without colours there are no escapes', () => {
  const change = { policies: read([policy({ status: 'False', message: '\u001b[2Jgone' })]) };
  expect(shown(change)).not.toContain('\u001b');
  expect(shown(change, true)).toContain('\ufffd[2Jgone');
  expect(shown(change, true)).toContain('\u001b[31mFalse\u001b[39m');
});

test('during a rotation, the text says when the next generation starts to sign', () => {
  const life = { expired: false, notBefore: at(0), notAfter: at(9e9) };
  const textWith = (signsAt?: string) =>
    nextGeneration([{ id: 'c625d969', state: 'pending', ...life, signsAt }], NOW);
  expect(textWith(at(9 * 60_000))).toBe('; c625d969 starts signing in 9m (12:09Z)');
  expect(textWith(at(-1))).toBe('; c625d969 starts signing now');
  expect(textWith()).toBe('; c625d969 starts signing after every target holds its root');
});

test('a policy whose actions after a deletion wait says what for', () => {
  const ready = policy();
  const message = 'datacenters "fra1" was deleted, and objects still reference it: waits for a restore';
  const waiting: Condition = {
    type: 'DeletionsFinished',
    status: 'False',
    reason: 'ReferrersLeft',
    message,
    lastTransitionTime: at(0),
  };
  const conditions = [...(ready.status?.conditions ?? []), waiting];
  expect(shown({ policies: read([ready]) })).not.toContain('waits for a restore');
  const shownNow = shown({ policies: read([{ ...ready, status: { ...ready.status, conditions } }]) });
  expect(shownNow).toContain('waits for a restore');
  expect(shownNow).toMatch(/^ {2}servers +True/m);
});

const audited = (more: object = {}) => {
  const violations = { total: 0, checked: 0, checkedAt: at(-120_000), ...more };
  return shown({ policies: read([{ ...policy(), status: { ...policy().status, violations } }]) });
};

test('an audit that could not read the objects counts nothing, and says why', () => {
  const text = audited({ message: 'could not check pods: GET /api/v1/pods: 403 Forbidden' });
  expect(text).toMatch(/^ {2}servers .* – +the audit is incomplete: could not check pods: /m);
  expect(text).not.toContain('matched no existing object');
});

test('a policy that governed no existing object is noted, with the time: objects may be newer', () => {
  expect(audited()).toMatch(/^ {2}servers .* 0 +matched no existing object 2m ago$/m);
});

test.each([80, 100, 120])('at a terminal of %i columns, the time line fits', (columns) => {
  const text = formatStatus(statusReport(healthy, REPORT_CONTEXT), false, columns);
  const section = text.slice(text.indexOf('Certificate authority'), text.indexOf('Serving certificates'));
  for (const line of section.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
  expect(section).toMatch(/\|={3,}/);
});

const day = (number: number) => new Date(Date.UTC(2026, 0, number));

test('all bars use the same time scale and mark the current time', () => {
  const older = { from: day(1), to: day(11), stroke: '-' };
  const newer = { from: day(6), to: day(21), stroke: '=' };
  const { bars, from, to } = timeLine([newer, older], day(8), 20);
  expect(bars).toEqual(['.....==|============', '-------|---.........']);
  expect([from, to]).toEqual([day(1), day(21)]);
});

test('the current time may be outside of all lifetimes, and the list may be empty', () => {
  const { bars } = timeLine([{ from: day(1), to: day(6), stroke: '=' }], day(11), 10);
  expect(bars).toEqual(['======...|']);
  expect(timeLine([], day(1), 10).bars).toEqual([]);
});

test('durations are shown like ages in kubectl', () => {
  expect([45_000, 300_000, 30 * 3_600_000, 89.9 * 86_400_000].map(span)).toEqual(['45s', '5m', '30h', '89d']);
  expect(relative('2026-01-01T00:00:00Z', day(4))).toBe('3d ago');
  expect(relative('2026-01-08T00:00:00Z', day(4))).toBe('in 4d');
  expect(relative('soon', day(4))).toBe('–');
});
