import { expect, test } from 'vitest';

import {
  at,
  CIRCUMSTANCES,
  FORBIDDEN,
  healthy,
  policy,
  read,
  restoreWindow,
} from '../../../../../test/support/cli/readings.ts';
import { statusReport } from '../report/status-report.ts';
import { formatStatus } from './format-status.ts';

const shown = (change: Partial<typeof healthy>, colours = false): string =>
  formatStatus(statusReport({ ...healthy, ...change }, CIRCUMSTANCES), colours);

test('a person sees each part, and in the end whether something is to be done', () => {
  const text = shown({});
  expect(text).toContain('Leader: gatehouse-a, for 24h');
  expect(text).toMatch(/^Certificate authority: steady; the next generation is due in \d+d$/m);
  expect(text).toMatch(/^ {2}[0-9a-f]{8} +active +2026-03-01 10:00Z +2028-02-29 11:00Z +in 729d +\|={39}$/m);
  expect(text).toMatch(/^ {2}prod\/db-tls +db +Valid +in 23h +in \d+h +signed by [0-9a-f]{8}$/m);
  expect(text).toMatch(/^ {2}ValidatingWebhookConfiguration +third-party +Current +authority$/m);
  expect(text).toMatch(/^ {2}servers +True +True +Warn +4$/m);
  expect(text).toContain('RestoreWindows: 1 open or unclean, of 2');
  expect(text.endsWith('\n\nEverything is fine.\n')).toBe(true);
});

test('what needs attention stands at the end, and what may not be read in its place', () => {
  const text = shown({
    servingSecrets: FORBIDDEN,
    windows: read([restoreWindow('CompletedWithViolations', at(-1))]),
  });
  expect(text).toContain(
    'Serving certificates: 0 seen\n  (you may not read Secrets with serving certs: alice may not)',
  );
  expect(text).toContain('This needs attention:\n  - RestoreWindow drill: the restore left 2 violations');
});

test('nothing that others wrote steers the terminal, and without colours there is no escape at all', () => {
  const change = { policies: read([policy({ status: 'False', message: '\u001b[2Jgone' })]) };
  expect(shown(change)).not.toContain('\u001b');
  expect(shown(change, true)).toContain('\ufffd[2Jgone');
  expect(shown(change, true)).toContain('\u001b[31mFalse\u001b[39m');
});
