import { expect, test } from 'vitest';

import { createMetrics } from './metrics.ts';
import { OPEN_METRICS, prefersOpenMetrics } from './open-metrics.ts';

const LABELS = { webhook: 'validate', operation: 'CREATE', outcome: 'allow' } as const;

test.each([
  [undefined, false],
  ['*/*', false],
  ['text/plain', false],
  ['application/openmetrics-text', true],
  ['application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1', true],
  ['text/plain, application/openmetrics-text;q=0.5', false],
  ['application/openmetrics-text;q=0', false],
])('the Accept header %s selects OpenMetrics: %s', (accept, expected) => {
  expect(prefersOpenMetrics(accept)).toBe(expected);
});

test('without exemplars OpenMetrics is not offered', () => {
  expect(createMetrics().openMetrics).toBeUndefined();
});

test('the bucket of a review names its trace, in OpenMetrics only', async () => {
  const traces = [{ trace_id: 'a', span_id: 'b' }, undefined];
  const metrics = createMetrics(() => traces.shift());
  metrics.admission(LABELS, 0.003);
  metrics.admission(LABELS, 0.03);
  expect(metrics.openMetrics?.contentType).toBe(OPEN_METRICS);
  const named = (await metrics.openMetrics?.text())?.split('\n').filter((line) => line.includes(' # '));
  expect(named).toEqual([
    expect.stringMatching(
      /^gatehouse_admission_duration_seconds_bucket\{le="0.005",.*\} 1 # \{trace_id="a",span_id="b"\} 0.003 \d+(\.\d+)?$/,
    ),
  ]);
  expect(await metrics.text()).not.toContain('trace_id');
});

test('the text is valid OpenMetrics, and the plain format is unchanged', async () => {
  const metrics = createMetrics(() => undefined);
  metrics.rejectedRequest(404);
  const before = new Set(namesOf(await metrics.text()));
  const text = (await metrics.openMetrics?.text()) ?? '';
  expect(text).toMatch(/\n# EOF\n$/);
  expect(text).not.toMatch(/\n\n/);
  expect(text).toContain('# TYPE gatehouse_rejected_requests counter\n');
  expect(text).toContain('\ngatehouse_rejected_requests_total{code="404"} 1\n');
  for (const [, name = ''] of text.matchAll(/^# TYPE (\S+) counter$/gm))
    for (const line of text
      .split('\n')
      .filter((one) => new RegExp(`^${name}(?![a-z_]*_total)[ {]`).test(one)))
      expect.unreachable(`a counter without _total: ${line}`);
  expect(new Set(namesOf(await metrics.text()))).toEqual(before);
  expect(new Set(namesOf(text))).toEqual(before);
});

/** The names of samples, which both formats share. */
const namesOf = (text: string): readonly string[] =>
  text.split('\n').flatMap((line) => /^([a-z]\w*)[ {]/.exec(line)?.[1] ?? []);
