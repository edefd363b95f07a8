/** The CEL cost limit of a request, and the turns that requests take. */
import { describe, expect, test, vi } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { CEL_COST_LIMIT } from '../../cel/values/values.ts';
import {
  clusterOf,
  createRequest,
  GROUP,
  policyOf,
  updateRequest,
} from '../../../test/support/admission/policy.ts';
import { auditObject, forAudit } from './audit.ts';
import { mutate } from './mutate.ts';
import { validate } from './validate.ts';
import type { AdmissionContext, Turns } from './world.ts';

const items = (count: number) => ({
  items: Array.from({ length: count }, (_, index) => ({ name: `item-${index}` })),
});
const UNIQUE = 'object.spec.items.all(a, object.spec.items.exists_one(b, a.name == b.name))';

const named = (name: string, spec: Partial<AdmissionPolicySpec>) => policyOf(spec, name);
const quadratic = (name: string, rest: Partial<AdmissionPolicySpec> = {}) =>
  named(name, {
    validate: { rules: [{ name: 'unique', expression: UNIQUE, message: 'names repeat' }] },
    ...rest,
  });
const EIGHT = Array.from({ length: 8 }, (_, index) => quadratic(`p${index}`));

/** Records the cost of a review; `wait` decides which call of `next` waits for its turn. */
function turnsOf(wait: (call: number) => Promise<void> | undefined = () => undefined) {
  const charged: number[] = [];
  let calls = 0;
  const turns: Turns = { next: () => wait((calls += 1)), charge: (cost) => charged.push(cost) };
  return { turns, charged, total: () => charged.reduce((sum, cost) => sum + cost, 0) };
}

const contextOf = (turns: Turns, rest: Partial<AdmissionContext> = {}): AdmissionContext => ({
  ...clusterOf(),
  turns,
  ...rest,
});

describe('the expressions of all policies share one cost limit per request', () => {
  test('in which eight policies with a quadratic rule over 100 items fit', async () => {
    const { turns, total } = turnsOf();
    const decision = await validate(createRequest(items(100)), EIGHT, contextOf(turns));
    expect(decision.kind).toBe('allow');
    expect(total()).toBeGreaterThan(CEL_COST_LIMIT / 4);
  });

  test('even under failurePolicy Ignore', async () => {
    const policies = EIGHT.map(({ name }) => quadratic(name, { failurePolicy: 'Ignore' }));
    const decision = await validate(createRequest(items(250)), policies, clusterOf());
    expect(decision.kind).toBe('deny');
  });

  test('policies that only warn share a separate limit', async () => {
    const lenient = ['a-warning', 'b-warning'].map((name) => quadratic(name, { enforcement: 'Warn' }));
    const policies = [...lenient, quadratic('z-denying')];
    const decision = await validate(createRequest(items(390)), policies, clusterOf());
    const warnings = [expect.stringMatching(/cost limit exceeded.*\(policy b-warning\)/) as string];
    expect(decision).toMatchObject({ kind: 'allow', warnings });
  });

  test('variables count, even if they use each other', async () => {
    const variables = Array.from({ length: 20 }, (_, index) => ({
      name: `v${index}`,
      expression: `${index === 0 ? 'true' : `variables.v${index - 1}`} && ${UNIQUE}`,
    }));
    const nested = named('nested', {
      variables,
      validate: { rules: [{ expression: 'variables.v19' }] },
    });
    const { turns, total } = turnsOf();
    const decision = await validate(createRequest(items(250)), [nested], contextOf(turns));
    expect(decision.kind).toBe('deny');
    expect(total()).toBeGreaterThan(CEL_COST_LIMIT / 2);
  });

  test('an audit has the limit for each object and policy', async () => {
    const resource = { group: GROUP, resource: 'servers' };
    const stored = { metadata: { name: 'a', namespace: 'store' }, spec: items(390) };
    for (const policy of EIGHT) {
      const { turns, total } = turnsOf();
      const audited = await auditObject(forAudit(policy), resource, stored, contextOf(turns));
      expect(audited).toEqual({ kind: 'judged', violations: [] });
      expect(total()).toBeGreaterThan(CEL_COST_LIMIT / 2);
    }
  });

  test('mutations and defaults also share it', async () => {
    const heavy = `${UNIQUE} ? {'spec': {'checked': true}} : {}`;
    const policies = EIGHT.map(({ name }) =>
      named(name, {
        defaults: [{ path: 'spec.count', expression: `${UNIQUE} ? 1 : 2` }],
        mutations: [{ name: 'heavy', expression: heavy }],
      }),
    );
    const { turns, total } = turnsOf();
    const decision = await mutate(createRequest(items(250)), policies, contextOf(turns));
    expect(decision).toMatchObject({
      kind: 'deny',
      message: expect.stringMatching(
        /^mutation heavy: .*it costs more than \d+; all expressions.*\(policy p\d\)$/,
      ) as string,
    });
    expect(total()).toBeLessThanOrEqual(CEL_COST_LIMIT);
  });
});

test('a cost that exceeds the limit before and after a change is a new violation of an object in deletion', async () => {
  const deleting = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.com/hold'] };
  const request = updateRequest(items(450), items(451));
  const held = {
    ...request,
    oldObject: { metadata: { name: 'a', namespace: 'store', ...deleting }, spec: items(450) },
    object: { metadata: { name: 'a', namespace: 'store', ...deleting }, spec: items(451) },
  };
  const decision = await validate(held, [quadratic('p')], clusterOf());
  expect(decision.kind).toBe('deny');
});

describe('turns', () => {
  test('a review pauses between two policies, and continues where it paused', async () => {
    const resumed = Promise.withResolvers<undefined>();
    const { turns, charged } = turnsOf((call) => (call === 3 ? resumed.promise : undefined));
    const deciding = validate(createRequest(items(10)), EIGHT, contextOf(turns));
    expect(deciding).toBeInstanceOf(Promise);
    expect(charged).toHaveLength(2);
    resumed.resolve(undefined);
    expect((await deciding).kind).toBe('allow');
    expect(charged).toHaveLength(8);
  });

  test('after a read of the cluster, a review waits for its turn before it evaluates', async () => {
    const resumed = Promise.withResolvers<undefined>();
    const { turns, charged } = turnsOf((call) => (call === 2 ? resumed.promise : undefined));
    const reader = named('reader', { validate: { rules: [{ expression: 'namespaceObject != null' }] } });
    const cluster = clusterOf();
    const world = { ...cluster.world, read: () => Promise.resolve({ metadata: { name: 'store' } }) };
    const deciding = validate(createRequest(items(1)), [reader], contextOf(turns, { world }));
    await vi.waitFor(() => {
      expect(charged).toEqual([]);
    });
    resumed.resolve(undefined);
    expect((await deciding).kind).toBe('allow');
    expect(charged).toHaveLength(1);
  });

  test.each(['validate', 'mutate'] as const)(
    'when the answer is due before its turn comes, a review to %s is retried and evaluates nothing',
    async (webhook) => {
      const over = new AbortController();
      const resumed = Promise.withResolvers<undefined>();
      const { turns, charged } = turnsOf(() => resumed.promise);
      const policy = quadratic('p', { defaults: [{ path: 'spec.count', expression: '1' }] });
      const decide = webhook === 'mutate' ? mutate : validate;
      const deciding = decide(createRequest(items(10)), [policy], contextOf(turns, { signal: over.signal }));
      over.abort();
      resumed.resolve(undefined);
      expect(await deciding).toMatchObject({
        kind: 'retry',
        message: expect.stringContaining('before the answer was due') as string,
      });
      expect(charged.filter((cost) => cost > 0)).toEqual([]);
    },
  );
});
