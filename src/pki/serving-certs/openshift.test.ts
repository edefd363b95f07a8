import { expect, test } from 'vitest';
import { openshiftSecretMarks, openshiftServiceChange } from './openshift.ts';

const BETA = 'service.beta.openshift.io/serving-cert-';
const ALPHA = 'service.alpha.openshift.io/serving-cert-';
const failure = { kind: 'failed', message: 'secret db-tls belongs to someone else' } as const;
const applied = (
  annotations: Record<string, string>,
  change: Readonly<Record<string, string | null>> | undefined,
) =>
  Object.fromEntries(
    Object.entries({ ...annotations, ...change }).flatMap(([name, value]) =>
      value === null ? [] : [[name, value]],
    ),
  ) as Record<string, string>;

test('the annotations of a Secret name its Service and the end of its cert', () => {
  expect(openshiftSecretMarks({ name: 'db', uid: 'u' }, new Date('2026-03-01T12:00:00.123Z'))).toEqual({
    'service.beta.openshift.io/originating-service-uid': 'u',
    'service.beta.openshift.io/originating-service-name': 'db',
    'service.beta.openshift.io/expiry': '2026-03-01T12:00:00Z',
    'service.alpha.openshift.io/originating-service-uid': 'u',
    'service.alpha.openshift.io/originating-service-name': 'db',
    'service.alpha.openshift.io/expiry': '2026-03-01T12:00:00Z',
  });
});

test('each new failure is reported and counted once, and a success removes it', () => {
  const first = applied({ other: 'x' }, openshiftServiceChange({ other: 'x' }, failure));
  expect(first).toMatchObject({
    [`${BETA}generation-error`]: failure.message,
    [`${ALPHA}generation-error-num`]: '1',
  });
  expect(openshiftServiceChange(first, failure)).toBeUndefined();

  const second = applied(first, openshiftServiceChange(first, { kind: 'failed', message: 'another' }));
  expect(second[`${BETA}generation-error-num`]).toBe('2');

  const signed = { kind: 'signed', signedBy: 'gatehouse-serving-ca-1' } as const;
  const well = applied(second, openshiftServiceChange(second, signed));
  expect(well).toEqual({
    other: 'x',
    [`${BETA}signed-by`]: 'gatehouse-serving-ca-1',
    [`${ALPHA}signed-by`]: 'gatehouse-serving-ca-1',
  });
  expect(openshiftServiceChange(well, signed)).toBeUndefined();
});

test('an invalid count starts again at 1', () => {
  const change = openshiftServiceChange({ [`${BETA}generation-error-num`]: 'many' }, failure);
  expect(change).toMatchObject({ [`${BETA}generation-error-num`]: '1' });
});
