import { expect, test } from 'vitest';

import { compiled, OWN_NAMESPACE } from '../../../test/support/runtime/fixtures.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { installedOf } from '../../admission/native/installed-policy.ts';
import { compileNative } from '../../admission/native/native-policy.ts';
import { unwatched } from '../watch.ts';
import { startReleases } from './releases.ts';

const rules = [{ name: 'few', expression: 'object.spec.units < 5' }];
const policy = compiled({ validate: { rules } }, { name: 'a', generation: 1 });
const config = { namespace: OWN_NAMESPACE, compilePolicies: true };
const OPTIONS = { ownNamespace: OWN_NAMESPACE, restorers: [], others: [] };
const [pair] = compileNative(policy, OPTIONS).pairs.map((one) => installedOf(one, { name: 'a', uid: '' }));
const { name = '', digest = '' } = pair ?? {};
const POLICIES = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';
const BINDINGS = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';

const WARNED = { check: 'rule few', by: 'Webhook', reason: 'undefined field' };

interface Circumstances {
  readonly enforcedBy?: readonly object[];
  /** Settles when the watch of the path fails. */
  readonly broken?: Readonly<Record<string, Promise<unknown>>>;
}

/** A replica that enforces the policy, and reads this confirmation. */
function start(confirmed: object = {}, generation = 1, { enforcedBy = [], broken = {} }: Circumstances = {}) {
  const { context, lists, listed, signal } = createListedContext({ config });
  const stream: typeof context.rest.stream = async function* ({ path }) {
    await (broken[path] ?? new Promise(() => undefined));
    yield* [];
  };
  for (const [path, uid] of Object.entries({ [POLICIES]: 'p', [BINDINGS]: 'b' }))
    lists.set(path, [{ metadata: { name, uid, generation: 1 } }]);
  const pairs = [{ name, digest, policy: 'p/1', binding: 'b/1', ...confirmed }];
  const store = { get: () => ({ status: { confirmed: { generation, pairs }, enforcedBy } }) };
  const onChange = (refresh: () => void) => refresh();
  const releases = startReleases(
    { ...context, rest: { ...context.rest, stream }, namespaces: undefined },
    {
      registry: { inForce: () => [policy], subscribe: () => undefined },
      policies: { ...unwatched(), store, onChange } as never,
      detectors: unwatched(),
    },
    signal,
  );
  let told = 0;
  releases.onChange(() => (told += 1));
  return { listed, told: () => told, release: () => releases.of(policy) };
}

test('checks are left to the API server once it stores the confirmed pair, and listeners know', async () => {
  const { release, told } = start({}, 1, { enforcedBy: [{ ...WARNED, warnedGeneration: 0 }] });
  expect(release()).toBeUndefined();
  await expect.poll(release).toMatchObject({ policy, digest, remaining: { rules: [] } });
  expect(told()).toBe(1);
});

test.each<[string, Parameters<typeof start>]>([
  ['the policy is stored in another version', [{ policy: 'p/2' }]],
  ['the binding is stored in another version', [{ binding: 'other/1' }]],
  ['the confirmed pair has other content', [{ digest: 'd' }]],
  ['another generation is confirmed', [{}, 2]],
  ['the API server has warned about it', [{}, 1, { enforcedBy: [{ ...WARNED, warnedGeneration: 1 }] }]],
])('the webhook judges every check if %s', async (_what, confirmation) => {
  const { listed, release, told } = start(...confirmation);
  await expect.poll(() => listed.length).toBe(2);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect([release(), told()]).toEqual([undefined, 0]);
});

test.each([POLICIES, BINDINGS])(
  'the webhook judges every check while the watch of %s fails',
  async (path) => {
    const { promise, reject } = Promise.withResolvers<never>();
    const { release } = start({}, 1, { broken: { [path]: promise } });
    await expect.poll(release).toBeDefined();
    reject(new Error('connection refused'));
    await expect.poll(release).toBeUndefined();
  },
);
