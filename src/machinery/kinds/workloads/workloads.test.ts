import { expect, test } from 'vitest';
import { created } from '../../../../test/support/sandbox/built-in-objects.ts';

test.each([
  ['i', 'Always'],
  ['i:latest', 'Always'],
  ['host:5000/i', 'Always'],
  ['i:1', 'IfNotPresent'],
  ['i@sha256:0', 'IfNotPresent'],
])('a Pod with the image %s pulls %s', (image, imagePullPolicy) => {
  const pod = created('v1 Pod', { spec: { containers: [{ name: 'c', image }] } });
  expect(pod).toMatchObject({ spec: { containers: [{ imagePullPolicy }] }, status: { phase: 'Pending' } });
});
