// suite: shared-plane, sandbox: long
/** Eight policies with quadratic rules, attacked by one user: other users and the readiness check must not notice. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { createNamespace, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { admissionPolicy, configMapsWith, configMap } from '../support/objects.ts';

const POLICIES = 8;
/** Requests of the attacker at a time: more than one webhook may hold. */
const PARALLEL = 40;
const WRITES = 6;
/** At the size of the attack, one rule uses nearly the whole cost limit of a request. */
const KEYS = 420;

let cluster: Cluster;
let replica: Replica;

const judged = (namespace: string, name: string, keys: readonly string[]) => {
  const data = Object.fromEntries(keys.map((key) => [key, '']));
  return configMap(name, data, { namespace, labels: { judged: 'true' } });
};
const keys = (count: number) => Array.from({ length: count }, (_, index) => `key-${index}`);

function quadratic(name: string, failurePolicy: string): KubeObject {
  const expression =
    "!object.data.exists(k, k == 'bad') && object.data.all(a, object.data.exists_one(b, a == b))";
  const rules = [{ name: 'distinct', expression, message: 'keys repeat' }];
  const match = configMapsWith({ judged: 'true' });
  return admissionPolicy(name, { match, failurePolicy, timeoutSeconds: 5, validate: { rules } });
}

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ settings: { 'max-admission-reviews': '30' } }));
  for (const namespace of ['hers', 'shop']) await createNamespace(cluster, namespace);
  const names = Array.from({ length: POLICIES }, (_, index) => `distinct-${index}`);
  await cluster.apply(...names.map((name) => quadratic(name, 'Fail')), quadratic('lenient', 'Ignore'));
  for (const name of [...names, 'lenient']) await seeInForce(cluster, name);
  await untilRefused('a bad ConfigMap', `policy ${names.at(-1) ?? ''}`, () =>
    cluster.admin.create(configMaps, judged('shop', 'bad', ['bad']), { dryRun: true }),
  );
});

afterAll(() => cluster.stop());

test('a request that exceeds the cost limit is refused, with the policies, the rule, the cost and the remedy', async () => {
  const { message } = await refusal(cluster.admin.create(configMaps, judged('hers', 'costly', keys(KEYS))));
  expect(message).toMatch(
    /it costs more than \d+; all expressions for one request may cost 1000000, and those before it used \d+: make the object smaller, or simplify the expressions .* \(rule distinct\) \(policy distinct-\d\)/,
  );
});

test('during an attack with such requests, a bystander writes, the replica stays ready, and nothing is stored', async () => {
  const masters = ['system:masters'];
  const mallory = cluster.impersonate({ user: 'mallory', groups: masters });
  const ada = cluster.impersonate({ user: 'ada', groups: masters });
  const stopping = new AbortController();
  const outcomes = new Map<string, number>();
  const attack = async (lane: number): Promise<void> => {
    for (let count = 0; !stopping.signal.aborted; count += 1) {
      const costly = judged('hers', `costly-${lane}-${count}`, keys(KEYS));
      const outcome = await mallory.create(configMaps, costly).then(
        () => 'stored',
        (error: unknown) => (error instanceof ApiError ? `HTTP ${error.code}` : 'no answer'),
      );
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  };
  const attacking = Array.from({ length: PARALLEL }, (_, lane) => attack(lane));
  const unready: string[] = [];
  const probe = async (): Promise<void> => {
    const { ok, text } = await replica.readyz();
    if (!ok) unready.push(text);
  };
  try {
    await refusal(mallory.create(configMaps, judged('hers', 'first', keys(KEYS))));
    for (let index = 0; index < WRITES; index += 1) {
      await Promise.all([ada.create(configMaps, judged('shop', `small-${index}`, keys(3))), probe()]);
    }
  } finally {
    stopping.abort();
    await Promise.all(attacking);
  }
  expect(unready).toEqual([]);
  expect(outcomes.get('stored')).toBeUndefined();
  const { items } = await cluster.admin.listAll<KubeObject>(configMaps, { namespace: 'hers' });
  expect(items.filter(({ metadata }) => metadata?.labels?.judged === 'true')).toEqual([]);
}, 300_000);

describe('under failurePolicy: Ignore', () => {
  const LANES = 32;
  /** 1 MB; the rule about all words exceeds the cost limit. */
  const data = { words: keys(90_000).join(' ') };

  test.each([1, 5])('no large object is stored unchecked because %d s are over', async (timeoutSeconds) => {
    const name = `large-${timeoutSeconds}s`;
    const variables = [{ name: 'words', expression: 'object.data.words.split(" ")' }];
    const rules = [
      { name: 'distinct', expression: 'variables.words.all(a, variables.words.exists_one(b, a == b))' },
      { name: 'few', expression: 'size(variables.words) < 1000' },
    ];
    const match = configMapsWith({ large: name });
    await cluster.apply(
      admissionPolicy(name, {
        match,
        failurePolicy: 'Ignore',
        timeoutSeconds,
        variables,
        validate: { rules },
      }),
    );
    await seeInForce(cluster, name);
    const object = (one: string) => configMap(one, data, { namespace: 'shop', labels: { large: name } });
    await untilRefused('a large ConfigMap', name, () =>
      cluster.admin.create(configMaps, object('probe'), { dryRun: true }),
    );
    const create = async (one: string): Promise<string> =>
      await cluster.admin.create(configMaps, object(one)).then(
        () => 'stored',
        (error: unknown) => (error instanceof ApiError ? `HTTP ${error.code}` : 'no answer'),
      );
    const outcomes = await Promise.all(
      Array.from({ length: LANES }, async (_, lane) => [
        await create(`${name}-${lane}-a`),
        await create(`${name}-${lane}-b`),
      ]),
    );
    expect(outcomes.flat()).not.toContain('stored');
  });
});
