import { describe, expect, test } from 'vitest';

import { createClaimsInMemory } from '../../../../test/support/admission/claims.ts';
import {
  clusterOf,
  DATACENTER,
  GROUP,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { JsonObject } from '../../../json/json.ts';
import { validate } from '../validate.ts';

const kinds = { apiGroups: [GROUP], resources: ['servers'] };
const GOLD = { matchLabels: { tier: 'gold' } };
const ENABLED = [{ name: 'enabled', expression: 'object.spec.enabled == true' }];
const BY_USER = "request.userInfo.username == 'ci'";
/** The old object has no labels: the API server refuses its requests, or doesn't call the webhook. */
const UNKNOWN = [{ name: 'known', expression: "object.metadata.labels.tier == 'gold'" }];
const when = (expression: string) => ({ matchConditions: [{ name: 'when', expression }] });

describe.each<[string, Partial<AdmissionPolicySpec['match']>]>([
  ['an object selector', { objectSelector: GOLD }],
  ['a match condition', { matchConditions: ENABLED }],
  ['a match condition that the old object makes fail', { matchConditions: UNKNOWN }],
  ['a match condition on the request', when(`object.spec.enabled || ${BY_USER}`)],
  ['a match condition on the old object', when('object.spec.enabled && !oldObject.spec.enabled')],
  ['a match condition on all of it', when(`object.spec.enabled || oldObject.spec.enabled && ${BY_USER}`)],
])('an update that brings an object into the scope of %s', (_which, scope) => {
  const decide = async (validation: NonNullable<AdmissionPolicySpec['validate']>, spec: JsonObject) => {
    const policy = policyOf({ match: { ...kinds, ...scope }, validate: validation });
    const request = updateRequest({ ...spec, enabled: false }, { ...spec, enabled: true });
    const metadata = { name: 'a', namespace: 'store', uid: 'u1', labels: { tier: 'gold' } };
    const cluster = clusterOf();
    const governed = { referrers: () => [], holders: () => [] };
    const world = { ...cluster.world, governed, claims: createClaimsInMemory() };
    const flip = { ...request, object: { ...request.object, metadata } };
    return (await validate(flip, [policy], { ...cluster, world })).kind;
  };

  test('is refused if a reference dangles', async () => {
    expect(await decide({ references: [DATACENTER] }, { datacenter: 'gone' })).toBe('deny');
  });

  test('is refused if a list has more values than can be claimed', async () => {
    const unique = [{ name: 'ip', paths: ['spec.ips[*]'] }];
    expect(await decide({ unique }, { ips: Array.from({ length: 300 }, (_, n) => n) })).toBe('deny');
    expect(await decide({ unique }, { ips: [1] })).toBe('allow');
  });
});

test.each(['object.spec.enabled == true', `object.spec.enabled || ${BY_USER}`, `!(${BY_USER})`])(
  'an update that leaves alone what the match condition %j reads keeps a dangling reference',
  async (expression) => {
    const policy = policyOf({
      match: { ...kinds, ...when(expression) },
      validate: { references: [DATACENTER] },
    });
    const spec = { datacenter: 'gone', enabled: true };
    const decision = await validate(updateRequest(spec, { ...spec, units: 2 }), [policy], clusterOf());
    expect(decision.kind).toBe('allow');
  },
);
