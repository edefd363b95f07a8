/** The API server applies the changes of several policies in any order, and the result is always the one of the webhook. */
import { expect, test } from 'vitest';

import { isLeftToWebhook } from '../../src/admission/native/release.ts';
import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compiled-policy.ts';
import { isEqual } from '../../src/json/json.ts';
import { compileSpec } from '../support/admission/policy.ts';
import { byWebhook, defaultingSpecFrom, inOrder } from '../support/native/changes.ts';
import { mutatingSpecFrom } from '../support/native/mutations.ts';
import { askedFrom } from '../support/native/requests.ts';
import { isNightly } from '../support/nightly.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';

const PAIRS = isNightly ? 40_000 : 2_000;
const PER_POLICIES = 20;

function policyFrom(chance: Seeded, name: string): CompiledPolicy | undefined {
  const spec = chance.chance(0.4) ? defaultingSpecFrom(chance) : mutatingSpecFrom(chance);
  const result = compileSpec(spec, name);
  return result.kind === 'rejected' || result.policy.params !== undefined ? undefined : result.policy;
}

test('no order of two policies matters if both compile', async () => {
  const chance = createSeeded(4);
  const seen = { compared: 0, changed: 0, kept: 0, policies: 0 };
  while (seen.compared < PAIRS) {
    const others = ['a', 'b'].flatMap((name) => policyFrom(chance, name) ?? []);
    const [a, b] = others;
    if (a === undefined || b === undefined) continue;
    const options = { ownNamespace: 'gatehouse-system', restorers: [], others };
    if (others.some((policy) => compileNative(policy, options).checks.some(({ by }) => by === 'Webhook'))) {
      seen.kept += 1;
      continue;
    }
    seen.policies += 1;
    const orders = [inOrder([a, b], options), inOrder([b, a], options)];
    for (let pair = 0; pair < PER_POLICIES; pair += 1) {
      const asked = askedFrom(chance, {
        operations: ['CREATE', 'UPDATE'],
        resources: ['servers'],
        users: ['ada', 'mallory', ''],
      });
      if (others.some((policy) => isLeftToWebhook(policy, [], asked.request))) continue;
      const own = await byWebhook(others, asked);
      seen.compared += 1;
      if (own !== 'refused' && !isEqual(own, asked.question.object)) seen.changed += 1;
      const told = (outcome: unknown) => ({ specs: [a.spec, b.spec], asked: asked.request, outcome });
      for (const native of orders.map((apply) => apply(asked)))
        if (!isEqual(native, own)) expect(told(native)).toEqual(told(own));
    }
  }
  expect(seen.policies).toBeGreaterThan(50);
  expect(seen.kept).toBeGreaterThan(seen.policies);
  expect(seen.changed).toBeGreaterThan(seen.compared * 0.3);
});
