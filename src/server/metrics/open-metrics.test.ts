import { expect, test } from 'vitest';

import { createMetrics } from './metrics.ts';
import { prefersOpenMetrics } from './open-metrics.ts';

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
