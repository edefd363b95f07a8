// suite: shared-plane, sandbox: long
/** Hostile names and values of tenants, aimed at the readers of logs, Events, messages, metrics and terminals. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { configMaps, events } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, createNamespace, ROLES, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { runGatehouse } from '../support/review-command.ts';
import { admissionPolicy, referencesRole, type ConfigMap, type EventObject } from '../support/objects.ts';

/** Ends lines, closes JSON strings, clears the screen, reverses the text direction, and forges a log line. */
const EVIL = 'evil"}\r\n{"level":"info","msg":"forged"}\u001b[2J\u0085\u009b31m\u2028\u2029\u202e\u007f';
const STEERING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const LABELS = { judged: 'true' };
/** A large ConfigMap with this many violations still fits into the limit of one megabyte. */
const VIOLATIONS = 10_000;
/** Maximum number of Events: on objects of one policy, and on the policy itself. */
const MOST_EVENTS = 21;

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (started) => {
      await createNamespace(started, 'shop');
      await started.apply(referencesRole('roles', 'rbac.authorization.k8s.io', ['roles']));
    },
  }));
});

afterAll(() => cluster.stop());

const policy = (
  name: string,
  resource: Pick<Resource, 'group' | 'resource'>,
  validate: object,
): KubeObject => {
  const match = {
    apiGroups: [resource.group],
    apiVersions: ['v1'],
    resources: [resource.resource],
    objectSelector: { matchLabels: LABELS },
  };
  const spec = { match, validate };
  return admissionPolicy(name, spec);
};

const configMap = (name: string, data: Readonly<Record<string, string>>): ConfigMap => ({
  metadata: { namespace: 'shop', name, labels: LABELS },
  data,
});

/** The API server's error for a refused request. */
async function refusal(attempt: () => Promise<unknown>): Promise<ApiError> {
  return await eventually('a refusal', async () => {
    const error: unknown = await attempt().then(
      () => undefined,
      (failure: unknown) => failure,
    );
    return error instanceof ApiError && error.message.includes('denied the request') ? error : undefined;
  });
}

const logLines = () =>
  readFileSync(replica.program.logFile, 'utf8')
    .split('\n')
    .filter((line) => line !== '');

interface Audited extends KubeObject {
  readonly status?: { readonly violations?: { readonly total: number } };
}

test('an object with 10,000 violations, whose values are terminal control sequences, exists before its policy', async () => {
  const evil = Object.fromEntries(Array.from({ length: VIOLATIONS }, (_, n) => [`k${n}`, `${n}`]));
  await cluster.admin.create(configMaps, configMap('exploding', evil));
  await cluster.admin.create(configMaps, configMap('speaking', { word: EVIL, long: 'x'.repeat(500_000) }));
  for (let n = 0; n < 40; n++)
    await cluster.admin.create(configMaps, configMap(`many-${n}`, { word: `${n} ${EVIL}` }));
  const schema = {
    type: 'object',
    properties: { data: { type: 'object', additionalProperties: { type: 'string', pattern: '^ok$' } } },
  };
  const rules = [
    {
      name: 'says',
      expression: '!has(object.data) || !has(object.data.word)',
      messageExpression: "'the word is ' + object.data.word",
    },
  ];
  await cluster.apply(policy('loud', configMaps, { schema, rules }));
  await seeInForce(cluster, 'loud');
  const audited = await cluster.see<Audited>(
    'the audit',
    ADMISSION_POLICIES,
    { name: 'loud' },
    ({ status }) => (status?.violations?.total ?? 0) > 0,
  );
  expect(JSON.stringify(audited.status).length).toBeLessThan(64 * 1024);
});

test('its refusal, its Events and the status of its policy are short, few, and on one line', async () => {
  const many = Object.fromEntries(Array.from({ length: VIOLATIONS }, (_, n) => [`k${n}`, EVIL]));
  const error = await refusal(() =>
    cluster.admin.create(configMaps, configMap('again', { ...many, word: EVIL }), { dryRun: true }),
  );
  expect(error.message.length).toBeLessThan(10_000);
  expect(error.causes.length).toBeLessThanOrEqual(16);
  expect(error.message).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202e]/u); // eslint-disable-line no-control-regex -- what is looked for

  const about = await eventually('Events', async () => {
    const { items } = await cluster.admin.listAll<EventObject>(events);
    return items.length > 0 ? items : undefined;
  });
  const found = about.filter(({ message }) => message.includes('loud') || message.includes('violation'));
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThanOrEqual(MOST_EVENTS);
  for (const { message } of found) {
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1_024);
    expect(message).not.toMatch(STEERING);
  }
});

test('a user whose name imitates a log line, with a client that does the same, causes one log line', async () => {
  await cluster.apply(
    policy('roles', ROLES, { rules: [{ name: 'never', expression: 'false', message: 'no' }] }),
  );
  await seeInForce(cluster, 'roles');
  // eslint-disable-next-line no-control-regex -- headers of HTTP cannot hold these; names of Roles can
  const user = EVIL.replaceAll(/[\u0000-\u001f\u007f]/g, '');
  const mallory = cluster.impersonate({ user, groups: ['system:masters', `${user}-group`] });
  const role: KubeObject & { readonly rules: readonly object[] } = {
    metadata: { namespace: 'shop', name: EVIL.replaceAll(/[/%]/g, ''), labels: LABELS },
    rules: [],
  };
  const { message } = await refusal(() => mallory.create(ROLES, role));
  expect(message).toContain('no');

  const lines = await eventually('the line is written', () => {
    const all = logLines();
    return Promise.resolve(all.some((line) => line.includes('"resource":"roles"')) ? all : undefined);
  });
  const parsed = lines.map((line) => JSON.parse(line) as { readonly msg: string; readonly user?: string });
  expect(parsed.filter(({ msg }) => msg === 'forged')).toEqual([]);
  expect(parsed.some((line) => line.user === user)).toBe(true);
  expect(lines.filter((line) => STEERING.test(line))).toEqual([]);
});

test('nested comprehensions in a rule end with a refusal, and other requests are served meanwhile', async () => {
  const loops =
    'object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != "x"))))';
  await cluster.apply({
    ...policy('loops', configMaps, { rules: [{ name: 'loops', expression: loops, message: 'no' }] }),
  });
  await seeInForce(cluster, 'loops');
  const data = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`k${n}`, 'ok']));
  const started = performance.now();
  const attempts = Array.from({ length: 8 }, (_, n) =>
    refusal(() => cluster.admin.create(configMaps, configMap(`loop-${n}`, data), { dryRun: true })),
  );
  const small = await cluster.admin.create(configMaps, configMap('small', { k: 'ok' }), { dryRun: true });
  expect(small.metadata?.name).toBe('small');
  for (const { message } of await Promise.all(attempts)) expect(message).toMatch(/budget|cost/i);
  console.log(`eight such requests: ${((performance.now() - started) / 1_000).toFixed(1)} s`);
});

test('no metric has a label whose value a tenant can choose', async () => {
  const metrics = await replica.metrics();
  expect(metrics).toContain('gatehouse_admission_duration_seconds');
  expect(metrics).not.toMatch(/shop|evil|exploding|speaking|many-/);
  expect(metrics.split('\n').length).toBeLessThan(3_000);
});

test.each([[[]], [['-o', 'json']], [['-o', 'yaml']]] as const)(
  'gatehouse status %j writes no control sequence to a terminal',
  async (format) => {
    const ran = await runGatehouse(['status', ...format, '--kubeconfig', cluster.plane.kubeconfig('admin')]);
    expect(ran.stdout).toContain('loud');
    expect(`${ran.stdout}${ran.stderr}`.replaceAll('\n', '')).not.toMatch(STEERING);
  },
);
