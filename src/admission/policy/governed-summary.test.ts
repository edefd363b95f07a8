import { expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { needsSummary, summaryKey, summarise } from './governed-summary.ts';
import { GROUP, policyOf } from '../../../test/support/admission/policy.ts';

const kind = { group: GROUP, resource: 'servers' };
const restrict = {
  name: 'dc',
  path: 'spec.dc',
  target: { apiGroup: GROUP, resource: 'datacenters' },
  onTargetDelete: 'Restrict',
} as const;
const unique = { name: 'serial', paths: ['spec.serial'] };
const policy = (spec: Partial<AdmissionPolicySpec> = {}, name?: string) =>
  policyOf({ validate: { references: [restrict], unique: [unique] }, ...spec }, name);

const object = (metadata: object = {}) => ({
  metadata: { name: 'a', namespace: 'store', ...metadata },
  spec: { dc: 'fra1', serial: 'X' },
});

test('a summary lists the restricting reference targets and the unique keys of an object, each once', () => {
  const sketch = summarise([policy(), policy({}, 'again')], kind, object());
  expect(sketch.targets).toEqual([`datacenters.${GROUP}//fra1`]);
  expect(sketch.claims).toHaveLength(2);
});

test('an object that is being deleted protects no targets, and keeps its keys until it is gone', () => {
  const sketch = summarise([policy()], kind, object({ deletionTimestamp: '2026-11-21T12:00:00Z' }));
  expect([sketch.targets, sketch.claims.length]).toEqual([[], 1]);
});

test('an object that no policy selects has an empty summary', () => {
  const match = {
    apiGroups: [GROUP],
    resources: ['servers'],
    objectSelector: { matchLabels: { tier: 'gold' } },
  };
  expect(summarise([policy({ match })], kind, object())).toEqual({ targets: [], claims: [] });
});

test('only policies with unique values or protected targets need summaries', () => {
  expect(needsSummary(policy())).toBe(true);
  expect(needsSummary(policy({ validate: { unique: [unique] } }))).toBe(true);
  const allows = { ...restrict, onTargetDelete: 'Allow' } as const;
  expect(needsSummary(policy({ validate: { references: [allows], immutable: ['spec.dc'] } }))).toBe(false);
});

test('the summary key depends only on the fields that shape the summary', () => {
  expect(summaryKey(policy({ enforcement: 'Warn', timeoutSeconds: 9 }))).toBe(summaryKey(policy()));
  const path = { ...restrict, path: 'spec.other' };
  const others: readonly Partial<AdmissionPolicySpec>[] = [
    { validate: { references: [path], unique: [unique] } },
    { validate: { references: [restrict], unique: [{ ...unique, paths: ['spec.other'] }] } },
    { validate: { references: [restrict], unique: [{ ...unique, scope: 'Namespace' }] } },
    { match: { apiGroups: [GROUP], resources: ['servers'], objectSelector: { matchLabels: { a: 'b' } } } },
    { match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers'] } },
  ];
  for (const spec of others) expect(summaryKey(policy(spec))).not.toBe(summaryKey(policy()));
});
