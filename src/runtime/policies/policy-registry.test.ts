import { beforeEach, describe, expect, test } from 'vitest';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { toAdmissionRequest } from '../../admission/review/request.ts';
import { rulesOf } from '../../admission/webhooks/webhook-configurations.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { compiled, GROUP, OWN_NAMESPACE } from '../../../test/support/runtime/fixtures.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policy-registry.ts';
import { unwatched } from '../watch.ts';

let now: number;
let registry: PolicyRegistry;
beforeEach(() => {
  now = 1_000_000;
  registry = createPolicyRegistry(() => now);
});

const request = toAdmissionRequest({
  uid: 'u',
  kind: { group: GROUP, version: 'v1', kind: 'Server' },
  resource: { group: GROUP, version: 'v1', resource: 'servers' },
  name: 's1',
  namespace: 'shop',
  operation: 'CREATE',
  userInfo: { username: 'alice' },
  object: {},
});

/** What this replica has read. */
function policiesRead() {
  let policies: readonly AdmissionPolicy[] = [];
  const changed: ((key: string) => void)[] = [];
  const watched = unwatched<AdmissionPolicy>();
  return {
    now: (...versions: readonly CompiledPolicy[]) => {
      policies = versions.map(({ name, generation, spec }) => ({ metadata: { name, generation }, spec }));
      for (const tell of changed) tell('any');
    },
    source: {
      environment: { ownNamespace: OWN_NAMESPACE },
      policies: {
        ...watched,
        store: { ...watched.store, list: () => [...policies] },
        onChange: (tell: (key: string) => void) => void changed.push(tell),
      },
    },
  };
}

/** The newest versions of their policies. */
const set = (...policies: readonly CompiledPolicy[]) => {
  for (const policy of policies)
    registry.set(policy.name, { inForce: policy, problem: undefined, generation: policy.generation });
};
/** A version that is invalid. */
const setInvalid = (name: string, inForce?: CompiledPolicy, generation = 1) => {
  registry.set(name, { inForce, problem: { reason: 'InvalidPath', message: 'x' }, generation });
};
const more = compiled({}, { name: 'more', generation: 1 });
const selected = (entry: string) => {
  const selection = registry.policySet().select(entry, request);
  return selection.kind === 'governed' ? selection.policies : selection.kind;
};

const first = compiled();
const second = compiled({ enforcement: 'Warn' }, { name: 'servers', generation: 2 });
const moved = compiled({ timeoutSeconds: 10 }, { name: 'servers', generation: 2 });
/** A version that governs another kind. */
const disksOf = (change: { readonly timeoutSeconds?: number }) => {
  const match = { apiGroups: [GROUP], resources: ['disks'] };
  const spec = { match, validate: { immutable: ['spec.a'] }, ...change };
  return compiled(spec, { name: 'servers', generation: 2 });
};

/** What the API server stores: the webhooks of these policies. */
const store = (...policies: readonly CompiledPolicy[]) => registry.observe(rulesOf(policies));
const LAG_MS = 60_000;

test('a policy is installed when the API server stores all of its rules', () => {
  set(moved);
  expect(registry.isInstalled(moved)).toBeUndefined();
  store(first);
  expect(registry.isInstalled(moved)).toBe(false);
  store(first, moved);
  expect(registry.isInstalled(moved)).toBe(true);
});

describe('a removed policy', () => {
  beforeEach(() => {
    store(first);
    set(first);
    registry.remove('servers');
  });

  test('counts as retired for as long as the API server stores its webhooks, and a moment longer', () => {
    expect([selected(first.entryId), registry.inForce()]).toEqual(['unknown-entry', []]);
    registry.observe(undefined); // the configurations cannot be read
    now = 60 * 60_000;
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    expect(registry.wasRetired('fail-5s-0000000000', request)).toBe(false);
    const other = { ...request, resource: { ...request.resource, resource: 'disks' } };
    expect(registry.wasRetired(first.entryId, other)).toBe(false);
    store(first);
    store();
    now += LAG_MS - 1;
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    now += 1;
    expect(registry.wasRetired(first.entryId, request)).toBe(false);
  });

  test('is forgotten when another policy needs the same rules', () => {
    set(more);
    now = LAG_MS;
    registry.remove('more');
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    store();
    now = 2 * LAG_MS;
    expect(registry.wasRetired(first.entryId, request)).toBe(false);
  });

  test('does not count as retired while another policy is not compiled, which may need its webhooks', () => {
    const read = policiesRead();
    registry = createPolicyRegistry(() => now, read.source);
    read.now(more);
    set(first);
    registry.remove('servers');
    expect(registry.wasRetired(first.entryId, request)).toBe(false);
    setInvalid('more');
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
  });
});

describe('while the API server still uses the previous scope', () => {
  beforeEach(() => {
    store(first);
    set(first, moved);
  });

  test('it is enforced together with the other policies of the entry', () => {
    set(more);
    expect(selected(first.entryId)).toEqual([more, first]);
    expect(selected(moved.entryId)).toEqual([moved]);
    expect(registry.inForce()).toEqual([moved, more]);
    now = 60 * 60_000;
    expect(selected(first.entryId)).toEqual([more, first]);
    store(more, moved);
    now += LAG_MS;
    expect(selected(first.entryId)).toEqual([more]);
  });

  test('it is enforced while only one of the two configurations is replaced', () => {
    const defaults = [{ path: 'spec.tier', value: 'x' }];
    const mutating = compiled({ timeoutSeconds: 10, defaults }, { name: 'servers', generation: 3 });
    set(mutating);
    const [rule = ''] = rulesOf([mutating]);
    registry.observe(new Set([...rulesOf([first]), rule]));
    now = 60 * 60_000;
    expect(selected(first.entryId)).toEqual([first]);
  });

  test('a scope that changes back and forth always applies', () => {
    const third = compiled({ timeoutSeconds: 20 }, { name: 'servers', generation: 3 });
    set(third);
    expect(selected(first.entryId)).toEqual([first]);
    store(moved);
    expect(selected(moved.entryId)).toEqual([moved]);
    set(second);
    expect(selected(first.entryId)).toEqual([second]);
    expect(selected(moved.entryId)).toEqual([moved]);
    now = 60 * 60_000;
    expect(selected(moved.entryId)).toEqual([moved]);
    store(second);
    now += LAG_MS;
    expect(selected(moved.entryId)).toBe('unknown-entry');
  });

  test('a version whose rules for that entry are others does not hide an older one', () => {
    const disks = disksOf({});
    expect(disks.entryId).toBe(first.entryId);
    set(disks, moved);
    expect(selected(first.entryId)).toEqual([first]);
  });
});

describe('while the newest version of a policy is not compiled', () => {
  const other = compiled({ timeoutSeconds: 10 }, { name: 'more', generation: 1 });
  let read: (...versions: readonly CompiledPolicy[]) => void;
  beforeEach(() => {
    const policies = policiesRead();
    registry = createPolicyRegistry(() => now, policies.source);
    read = policies.now;
    read(moved, other);
    set(other, first);
  });

  test('the other policies of its new entry do not decide without it', () => {
    expect(moved.entryId).toBe(other.entryId);
    expect(selected(other.entryId)).toBe('unknown-entry');
    set(moved);
    expect(selected(other.entryId)).toEqual([other, moved]);
  });

  test('the previous version decides if it governs the request too', () => {
    read(second, other);
    expect(selected(first.entryId)).toEqual([first]);
    expect(selected(other.entryId)).toEqual([other]);
  });

  test('a removed policy of its new entry does not let requests pass', () => {
    registry.remove('more');
    read(moved);
    expect(registry.wasRetired(other.entryId, request)).toBe(false);
    read(first);
    expect(registry.wasRetired(other.entryId, request)).toBe(true);
  });

  test('the other policies decide requests that it does not govern', () => {
    read(disksOf({ timeoutSeconds: 10 }), other);
    expect(selected(other.entryId)).toEqual([other]);
  });
});
