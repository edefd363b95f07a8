// suite: shared-plane, sandbox: long, slow, nightly
/**
 * Compiled policies in an API server without any process of Gatehouse: it accepts them, and it judges and changes generated requests
 * as the webhook would.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { isLeftToWebhook } from '../../src/admission/native/release.ts';
import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compiled-policy.ts';
import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import { isEqual, parseJson, textIn, type JsonObject } from '../../src/json/json.ts';
import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import {
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../src/kube/well-known.ts';
import { toJson } from '../../src/machinery/api-object.ts';
import { createTransport, type Transport } from '../support/transport.ts';
import { compileSpec, GROUP, policyOf } from '../support/admission/policy.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import { established, startCluster, type Cluster } from '../support/cluster.ts';
import { byWebhook, defaultingSpecFrom } from '../support/native/changes.ts';
import { specFrom } from '../support/native/generated.ts';
import { distinct, NOTHING, specOf, type Verdict, verdictOfWebhook } from '../support/native/judge.ts';
import { mutatingSpecFrom } from '../support/native/mutations.ts';
import {
  KINDS,
  OPEN,
  PLACE_LABEL,
  realClient,
  realRequest,
  realVerdict,
  SHARED_PARAMS,
  unowned,
  withoutStatus,
  withStatusOf,
  written,
  type RealAnswer,
  type RealClient,
  type RealRequest,
} from '../support/native/real-requests.ts';
import { askedFrom, namespaceFrom, paramsFrom } from '../support/native/requests.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually } from '../support/processes.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';

type Spec = Partial<AdmissionPolicySpec>;

const SHARE = isNightly ? 12 : 1;
const PATIENT = { timeout: SHARE * 100_000 };
const RESTORER = 'system:serviceaccount:velero:velero';
const OPTIONS = {
  ownNamespace: 'gatehouse-system',
  restorers: [{ user: RESTORER }, { group: 'restorers' }],
  others: [],
};
const USERS = ['ada', 'ada', 'mallory', 'mallory', 'root', RESTORER];
const SOON = { timeoutMs: 60_000, everyMs: 200 };

/** A policy in its place: a namespace, or the cluster-scoped objects with its label. */
type Placed = ReturnType<typeof placedIn>;

let cluster: Cluster;
let transport: Transport;
let client: RealClient;
let mutates: boolean;

beforeAll(async () => {
  cluster = await startCluster({ contents: 'gatehouse' });
  mutates = hasMutatingPolicies(cluster);
  transport = createTransport(cluster.plane.server, cluster.plane.ca);
  client = realClient(transport, cluster.plane.token('admin'), RESTORER);
  await cluster.apply(...KINDS, OPEN, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'platform' },
  });
  for (const { metadata } of KINDS) await established(cluster, metadata?.name ?? '');
  await cluster.apply(...SHARED_PARAMS);
});

afterAll(async () => {
  await transport.stop();
  await cluster.stop();
});

const isNamespaced = ({ match }: CompiledPolicy): boolean => match.resources.includes('servers');

function placedIn(name: string, policy: CompiledPolicy, chance: Seeded, requests: number) {
  const { params } = policy;
  const shared = SHARED_PARAMS.find(
    (one) => one.kind === params?.kind && one.metadata?.namespace === params?.namespace,
  );
  return {
    policy,
    requests,
    namespace: namespaceFrom(chance, name),
    pairs: compileNative(policy, OPTIONS).pairs,
    params: shared ?? paramsFrom(chance, policy, name),
  };
}

/** Generated policies that the API server can enforce completely. */
function generatedFrom(
  prefix: string,
  chance: Seeded,
  count: number,
  specFor: (chance: Seeded) => Spec,
  requests: number,
): readonly Placed[] {
  const found: Placed[] = [];
  while (found.length < count) {
    const name = `${prefix}-${found.length}`;
    const result = compileSpec(inPlace(specFor(chance), name), name);
    if (result.kind === 'rejected') continue;
    const { policy } = result;
    // A Namespace has none of the fields that these policies read.
    if (policy.match.resources.includes('namespaces')) continue;
    const { checks, pairs } = compileNative(policy, OPTIONS);
    if (pairs.length === 0 || checks.some(({ by }) => by === 'Webhook')) continue;
    found.push(placedIn(name, policy, chance, requests));
  }
  return found;
}

const inPlace = (spec: Spec, place: string): Spec =>
  spec.params?.namespace === 'store' ? { ...spec, params: { ...spec.params, namespace: place } } : spec;

/** Installs the policies, and waits until the API server enforces all of them. */
async function install(all: readonly Placed[]): Promise<void> {
  await mapConcurrent(all, 8, async ({ namespace, params }) => {
    await cluster.apply(namespace);
    if (params !== undefined && !SHARED_PARAMS.includes(params)) await cluster.apply(params);
  });
  await mapConcurrent(all, 8, installOne);
  await seeEnforced();
}

async function installOne({ policy, pairs, namespace }: Placed): Promise<void> {
  const place = namespace.metadata?.name ?? '';
  const narrowed = isNamespaced(policy)
    ? { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': place } } }
    : { objectSelector: { matchLabels: { [PLACE_LABEL]: place } } };
  for (const pair of pairs) {
    const changes = pair.part === 'changes';
    const installed = unowned(pair, policy.name);
    await cluster.admin.create(
      changes ? mutatingAdmissionPolicies : validatingAdmissionPolicies,
      installed.policy,
    );
    await cluster.admin.create(
      changes ? mutatingAdmissionPolicyBindings : validatingAdmissionPolicyBindings,
      { ...installed.binding, spec: { ...specOf(installed.binding), matchResources: narrowed } },
    );
  }
}

let rounds = 0;

/** The API server takes changes over in their order: what comes last is enforced last. Its stores of params start empty. */
async function seeEnforced(): Promise<void> {
  rounds += 1;
  const rules = [{ expression: 'params.spec.most == 0' }];
  const shared = { apiGroup: GROUP, name: 'limits', whenMissing: 'Allow' as const };
  const specs: readonly Spec[] = [
    { validate: { rules }, params: { ...shared, resource: 'classes', namespace: 'platform' } },
    { validate: { rules }, params: { ...shared, resource: 'datacenters' } },
    ...(mutates
      ? [
          {
            params: { ...shared, resource: 'classes', namespace: 'platform' },
            mutations: [
              { name: 'last', condition: 'params.spec.most == 3', expression: '{"spec": {"last": "yes"}}' },
            ],
            restore: { mutations: 'Apply' as const },
          },
        ]
      : []),
  ];
  const chance = createSeeded(0);
  for (const [index, spec] of specs.entries()) {
    const name = `last-${rounds}-${index}`;
    const last = placedIn(name, policyOf(spec, name), chance, 0);
    expect(last.pairs).toHaveLength(1);
    await cluster.apply(last.namespace);
    await installOne(last);
    const isEnforced = async () => {
      const { answer } = await client.send(
        {
          method: 'POST',
          path: `/apis/${GROUP}/v1/namespaces/${name}/servers?dryRun=All`,
          body: { apiVersion: `${GROUP}/v1`, kind: 'Server', metadata: { name: 'a' }, spec: {} },
        },
        { username: 'ada', uid: '', groups: [], extra: {} },
      );
      return answer.status >= 400
        ? answer.text.includes(`'${name}.`)
        : textIn(parseJson(answer.text), 'spec', 'last') === 'yes';
    };
    await eventually(`the enforcement of ${name}`, isEnforced, SOON);
  }
}

interface Told extends RealAnswer {
  readonly placed: Placed;
  readonly request: RealRequest;
}

/** One request after another in each place; cluster-scoped places share the names of objects. */
async function askAll(
  all: readonly Placed[],
  seed: number,
  written?: readonly ('CREATE' | 'UPDATE')[],
): Promise<readonly Told[]> {
  const ask = async (placed: Placed, index: number): Promise<readonly Told[]> => {
    const { policy, namespace, requests } = placed;
    const chance = createSeeded(seed + index);
    const told: Told[] = [];
    for (let count = 0; count < requests; count += 1) {
      const { match } = policy;
      const asked = askedFrom(chance, { ...match, operations: written ?? match.operations, users: USERS });
      const request = realRequest(asked, namespace);
      told.push({ placed, request, ...(await client.ask(request, chance.chance(0.4))) });
    }
    return told;
  };
  const indexed = all.map((placed, index) => ({ placed, index }));
  const inNamespaces = indexed.filter(({ placed }) => isNamespaced(placed.policy));
  const others = indexed.filter(({ placed }) => !isNamespaced(placed.policy));
  const queues = [others, ...inNamespaces.map((one) => [one])];
  const told = await mapConcurrent(queues, 8, async (queue) => {
    const ofQueue: Told[] = [];
    for (const { placed, index } of queue) ofQueue.push(...(await ask(placed, index)));
    return ofQueue;
  });
  return told.flat();
}

/** The annotations of each request in the audit log, by its id. */
async function auditOf(
  told: readonly Told[],
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
  return await eventually(
    'the audit log',
    () => {
      const log = cluster.plane.auditLog() as readonly {
        auditID?: string;
        annotations?: Record<string, string>;
      }[];
      const found = new Map(log.map(({ auditID = '', annotations = {} }) => [auditID, annotations]));
      return Promise.resolve(told.every(({ auditId }) => found.has(auditId)) ? found : undefined);
    },
    SOON,
  );
}

test('the API server judges as the webhook', PATIENT, async () => {
  const chance = createSeeded(1);
  const placed = generatedFrom('checks', chance, 24 * SHARE, specFrom, 11);
  await install(placed);
  const told = await askAll(placed, 100);
  const audit = await auditOf(told);
  const seen = { alike: 0, told: 0, left: 0 };
  const differences: unknown[] = [];
  for (const {
    placed: { policy, params },
    request,
    ...answer
  } of told) {
    const { validating } = request;
    const isLeft = isLeftToWebhook(policy, OPTIONS.restorers, validating.request);
    const own = isLeft ? NOTHING : await verdictOfWebhook(policy, validating, params);
    seen[isLeft ? 'left' : 'alike'] += 1;
    if (!isDeepStrictEqual(own, NOTHING)) seen.told += 1;
    const real = realVerdict(answer, audit.get(answer.auditId) ?? {});
    if (!isTold(own, real))
      differences.push({ spec: policy.spec, asked: validating.request, params, own, real });
  }
  expect(differences.slice(0, 5)).toEqual([]);
  expect(seen.told).toBeGreaterThan(told.length * 0.2);
  expect(seen.alike - seen.told).toBeGreaterThan(told.length * 0.1);
  expect(seen.left).toBeGreaterThan(told.length * 0.1);
});

/** Of several refusals the API server names one; of several violations in the audit log it does before Kubernetes 1.37. */
function isTold(own: Verdict, real: Verdict): boolean {
  const [refusal] = real.refusals;
  const [all, told] = [own, real].map(({ annotations: { violations, ...others } }) => ({
    violations,
    others,
  }));
  const isFirst =
    cluster.plane.version.minor < 37 &&
    all?.violations !== undefined &&
    told?.violations !== undefined &&
    (all.violations === 'too long' || all.violations.includes(told.violations));
  return (
    (refusal === undefined ? own.refusals.length === 0 : own.refusals.includes(refusal)) &&
    isDeepStrictEqual(real.warnings, distinct(own.warnings)) &&
    isDeepStrictEqual(told?.others, all?.others) &&
    (isFirst || told?.violations === all?.violations)
  );
}

test('the API server makes the same changes as the webhook', PATIENT, async ({ skip }) => {
  skip(!mutates, 'this API server serves no MutatingAdmissionPolicies');
  const chance = createSeeded(2);
  const placed = [
    ...generatedFrom('defaults', chance, 10 * SHARE, defaultingSpecFrom, 16),
    ...generatedFrom('changes', chance, 20 * SHARE, mutatingSpecFrom, 16),
  ];
  await install(placed);
  const told = await askAll(placed, 200, ['CREATE', 'UPDATE']);
  const seen = { compared: 0, changed: 0, refused: 0, left: 0, invalid: 0 };
  const differences: unknown[] = [];
  for (const {
    placed: { policy, params },
    request: { mutating },
    answer,
  } of told) {
    const { object, oldObject, attributes } = mutating.question;
    if (object === undefined) throw new Error('nothing is written');
    const isLeft = isLeftToWebhook(policy, OPTIONS.restorers, mutating.request);
    const own = isLeft ? toJson(object) : await byWebhook([policy], mutating, params);
    const said = parseJson(answer.text);
    seen.compared += 1;
    if (isLeft) seen.left += 1;
    if (typeof own !== 'string' && !isEqual(own, toJson(object))) seen.changed += 1;
    if (own === 'refused') seen.refused += 1;
    const isInvalid =
      textIn(said, 'reason') === 'Invalid' && /metadata\.(labels|annotations)/.test(answer.text);
    if (isInvalid && own !== 'refused') {
      seen.invalid += 1; // a change that the API server cannot store, whoever makes it
      continue;
    }
    const storedOf = (changed: JsonObject): JsonObject =>
      attributes.subresource === 'status' && oldObject !== undefined
        ? withStatusOf(changed, toJson(oldObject))
        : withoutStatus(changed);
    const isRefusal = answer.status >= 400 && textIn(said, 'message').includes(`${policy.name}.changes.`);
    const real = isRefusal ? 'refused' : written(said as JsonObject);
    const wanted = typeof own === 'string' ? own : written(storedOf(own));
    if (!isEqual(real, wanted) && !isDeepStrictEqual(real, wanted))
      differences.push({ spec: policy.spec, asked: mutating.request, params, wanted, real });
  }
  expect(differences.slice(0, 5)).toEqual([]);
  expect(seen.changed).toBeGreaterThan(told.length * 0.2);
  expect(seen.refused).toBeGreaterThan(told.length * 0.02);
  expect(seen.left).toBeGreaterThan(told.length * 0.05);
  expect(seen.invalid).toBeLessThan(told.length * 0.3);
});
